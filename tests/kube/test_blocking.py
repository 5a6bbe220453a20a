"""The blocking session: the client's answers in threads, with warnings and the headers of the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error
from tests.kube.kubeconfigs import kubeconfig
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.blocking import BlockingSession, wait_for
from trainyard.kube.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PATH = "/api/v1/namespaces/ns/configmaps"
In = Callable[[Callable[[BlockingSession], Any]], Any]


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}}


@pytest.fixture
def file(api: FakeApi, tmp_path: Path) -> Path:
    return kubeconfig(tmp_path, api.connection.server, {"token": "t"})


@pytest.fixture
async def within(file: Path) -> AsyncIterator[In]:
    """Call with a session, in a thread: the server answers on the loop of the test."""
    session = await asyncio.to_thread(BlockingSession, file)
    yield lambda call: asyncio.to_thread(call, session)
    await asyncio.to_thread(session.close)


async def test_a_response_is_returned_whatever_its_status(within: In) -> None:
    def requests(session: BlockingSession) -> list[tuple[int, bool]]:
        found = [
            session.request("POST", PATH, config_map("a")),
            session.request("POST", PATH, config_map("a")),
            session.request("PATCH", f"{PATH}/a", {"data": {"x": "1"}}),
            session.request("GET", f"{PATH}/b"),
        ]
        assert found[2].body["data"] == {"x": "1"}
        assert found[1].message == 'configmaps "a" already exists'
        return [(each.status, each.ok) for each in found]

    assert await within(requests) == [(201, True), (409, False), (200, True), (404, False)]


async def test_a_rejected_creation_is_the_error_of_the_client(within: In) -> None:
    await within(lambda session: session.create(PATH, config_map("a")))
    with pytest.raises(ApiError, match="AlreadyExists") as raised:
        await within(lambda session: session.create(PATH, config_map("a")))
    assert raised.value.conflict


async def test_warnings_headers_and_queries_pass(api: FakeApi, within: In) -> None:
    seen: list[web.Request] = []
    long = "漢" * 4000
    texts = ('one "quoted"', long)

    def warn(_: FakeApi, request: web.Request) -> web.Response:
        seen.append(request)
        response = web.json_response({"message": "no"}, status=422)
        for text in texts:
            response.headers.add("Warning", '299 - "' + text.replace('"', '\\"') + '"')
        response.headers.add("Warning", "199 other")
        return response

    api.fault = warn
    headers = [("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
    answer = await within(
        lambda session: session.request("PATCH", f"{PATH}/a", {}, dry_run=True, headers=headers, patch="apply-patch")
    )
    assert (answer.status, answer.message, answer.warnings) == (422, "no", texts)
    [request] = seen
    assert request.headers.getall("Impersonate-Group") == ["a", "b"]
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.query == {"dryRun": "All"}


async def test_text_is_the_message(api: FakeApi, within: In) -> None:
    api.fault = lambda _, request: web.Response(status=503, text="upstream connect error\n")
    answer = await within(lambda session: session.request("GET", "/readyz"))
    assert (answer.status, answer.message) == (503, "upstream connect error")
    api.fault = lambda _, request: web.Response(text="ok")
    assert (await within(lambda session: session.request("GET", "/readyz"))).ok


async def test_throttling_is_waited_out(api: FakeApi, within: In) -> None:
    answers = iter([error(429, "TooManyRequests", "slow down", Retry_After="0.01")])
    api.fault = lambda _, request: next(answers, None)
    assert (await within(lambda session: session.request("POST", PATH, config_map("a")))).status == 201


async def test_threads_share_a_session_and_the_calls_of_the_client(within: In) -> None:
    def many(session: BlockingSession) -> list[str]:
        with ThreadPoolExecutor(8) as workers:
            list(workers.map(lambda number: session.create(PATH, config_map(f"c-{number:02}")), range(40)))
        return [body["metadata"]["name"] for body in session.run(lambda client: client.list(CONFIG_MAPS, limit=7))]

    assert await within(many) == [f"c-{number:02}" for number in range(40)]


async def test_a_broken_connection_is_an_error_and_closing_ends_the_thread(
    api: FakeApi, file: Path, within: In
) -> None:
    def cut(_: FakeApi, request: web.Request) -> None:
        assert request.transport is not None
        request.transport.close()

    api.fault = cut
    with pytest.raises(TransportError, match="POST"):
        await within(lambda session: session.request("POST", PATH, config_map("a")))
    with pytest.raises(TrainyardError, match=f"No control plane answers through {file}: GET /version"):
        await asyncio.to_thread(BlockingSession, file)
    assert sum(thread.name == "trainyard-session" for thread in threading.enumerate()) == 1


@pytest.mark.parametrize(
    ("user", "cluster", "reason", "fix"),
    [
        ({"token": "t"}, {}, "No control plane answers through .*GET /version", "trainyard cluster up"),
        ({"username": "ann", "password": "x"}, {}, "passwords are not supported", "token"),
        ({"token": "t"}, {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify is set", "certificate"),
    ],
)
def test_no_control_plane_is_an_error_with_a_fix(
    tmp_path: Path, user: dict[str, str], cluster: dict[str, bool], reason: str, fix: str
) -> None:
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", user, **cluster)
    with pytest.raises(TrainyardError, match=reason) as raised:
        BlockingSession(file)
    assert fix in raised.value.fix


def test_what_does_not_happen_in_time_is_an_error() -> None:
    with pytest.raises(TrainyardError, match="the end did not happen within 0 s"):
        wait_for("the end", lambda: False, timeout=0, interval=0.001)


async def test_a_closed_session_raises_instead_of_waiting(file: Path) -> None:
    session = await asyncio.to_thread(BlockingSession, file)
    await asyncio.to_thread(session.close)
    await asyncio.to_thread(session.close)
    with pytest.raises(TrainyardError, match="is closed"):
        await asyncio.to_thread(session.request, "GET", PATH)


async def test_threads_that_wait_while_the_session_is_closed_get_an_error(file: Path) -> None:
    def endless(session: BlockingSession) -> str:
        try:
            while True:
                session.request("GET", PATH)
        except BaseException as error:
            return type(error).__name__

    for _ in range(20):
        session = await asyncio.to_thread(BlockingSession, file)
        calls = asyncio.gather(*(asyncio.to_thread(endless, session) for _ in range(4)))
        await asyncio.sleep(0)
        await asyncio.to_thread(session.close)
        assert set(await asyncio.wait_for(calls, 20)) == {"TrainyardError"}


def test_an_unusable_kubeconfig_keeps_its_own_fix(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError) as raised:
        BlockingSession(tmp_path / "absent")
    assert raised.value.fix == "Name an existing kubeconfig file and context"
