from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.components.recording import Recording, record, service_access, stack_config


@contextmanager
def event_loop() -> Iterator[None]:
    """The Pulumi SDK takes the thread's current event loop; asynchronous tests that ran before leave none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="module", autouse=True)
def event_loop_of_pulumi() -> Iterator[None]:
    with event_loop():
        yield


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="session")
def local() -> Recording:
    """The local stack, as the embedded cluster gets it."""
    with event_loop(), pytest.MonkeyPatch.context() as patch:
        return record(stack_config(), patch, policies=True)


@pytest.fixture(scope="session")
def services() -> Recording:
    """The same stack protected and with replicas, on a cluster whose webhooks are reached through Services."""
    config = stack_config(
        cluster={"provider": "existing", "context": "prod"},
        protect=True,
        volcano={"replicas": 2},
        trainer={"replicas": 3},
        images={"jobset": {"repository": "mirror.example/jobset", "digest": "sha256:" + "a" * 64}},
    )
    with event_loop(), pytest.MonkeyPatch.context() as patch:
        return record(config, patch, access=service_access(), stack="prod", policies=True)
