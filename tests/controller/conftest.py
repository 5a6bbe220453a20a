from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.kube.fake_api import FakeApi, serving


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as server:
        yield server
