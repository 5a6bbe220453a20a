from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from tests.kube.fake_api import FakeApi, serving

FIRST_APPLY = re.compile(r"/secrets/[^/?]+\?fieldManager=trainyard-controller-[0-9a-f]{8}&force=false(&|$)")
"""Only an apply may create a Secret of a given name; its own field manager makes it conflict if the Secret exists."""


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """Yield an API server; every write of the test but creates and Events has to carry a uid or resourceVersion."""
    async with serving(FakeApi()) as server:
        yield server
    unconditional = {(method, path) for method, path in server.unconditional if not FIRST_APPLY.search(path)}
    assert not unconditional, "writes without a precondition"
