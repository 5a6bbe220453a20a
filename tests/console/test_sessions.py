"""Console of several viewers: sign-in, what each may see, the end of sessions, and requests of other pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.console import browser as driver
from tests.console.served_console import PROGRAM
from tests.console.test_access_guard import PAGES
from tests.console.test_pages import REPORT
from tests.console.viewers import ACCOUNT, HOST, Rights, Served, certificate, console
from tests.explain.recorded_clusters import minutes_ago
from tests.kube.fake_api import FakeApi, eventually, serving
from tests.kube.kubeconfigs import kubeconfig
from trainyard.errors import TrainyardError
from trainyard.insight.console import bounded_protocol, sign_in_limit, viewer_sessions
from trainyard.insight.console.page_headers import CONTENT_SECURITY_POLICY
from trainyard.insight.console.plan_limit import CLUSTER_SETTINGS
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.serving_certificate import ServingFiles

LISTS = tuple(path for path in PAGES if not path.startswith("/jobs/"))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with console(tmp_path) as found:
        yield found


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm tokens at once."""
    monkeypatch.setattr(viewer_sessions, "CONFIRM_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def browsers(served: Served, count: int) -> AsyncIterator[list[httpx.AsyncClient]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(served.browser()) for _ in range(count)]


@pytest.mark.parametrize("path", [*PAGES, "/events", "/queues/plan", "/session", "/nothing"])
async def test_without_a_session_nothing_is_shown(served: Served, path: str) -> None:
    async with served.browser() as client:
        for name in ("X-Remote-User", "X-Remote-Group", "Authorization"):
            answer = await client.get(path, headers={name: "root", "X-Remote-Group": "system:masters"})
            assert answer.status_code == 401
            assert "vision" not in answer.text
    assert not [each for each in served.rights.seen if each[1] == "GET"]


@pytest.mark.slow
async def test_viewers_see_what_their_own_token_may_read(served: Served) -> None:
    async with served.browser() as alice, served.browser() as bob:
        for client, token in ((alice, "alice-token"), (bob, "bob-token")):
            answer = await served.sign_in(client, token)
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
        for client, name, own, other in (
            (alice, "alice", ("vision", "wide"), ("language", "waits")),
            (bob, "bob", ("language", "waits"), ("vision", "wide")),
        ):
            assert own[1] in (await client.get("/jobs")).text
            for path in (*LISTS, "/fabric?color=job", "/fabric?color=tenant"):
                text = (await client.get(path)).text
                assert not any(each in text for each in (f"/{other[0]}/", f"{other[0]}/{other[1]}")), path
                assert name in text
            found = await client.get(f"/jobs/trainjob/{other[0]}/{other[1]}")
            assert found.status_code == 404
            logs = await client.get(f"/jobs/trainjob/{other[0]}/{other[1]}/logs?pod={other[1]}-0&container=node")
            assert logs.status_code == 404
            plan = await client.post("/queues/plan", data={"settings": "queues: {}"}, headers={"origin": served.base})
            assert other[1] not in plan.text
    reads = {token for token, method, _ in served.rights.seen if method == "GET"}
    assert reads == {"alice-token", "bob-token"}
    assert {(method, path) for token, method, path in served.rights.seen if token == ACCOUNT} == {
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    }
    assert {method for token, method, _ in served.rights.seen if token != ACCOUNT} == {"GET"}
    assert not any(kind in path for _, _, path in served.rights.seen for kind in ("secrets", "configmaps"))


async def test_every_viewer_sees_the_reports_of_scenarios(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    async with console(tmp_path, scenarios=ScenarioFolder(folder)) as served, served.browser() as bob:
        await served.sign_in(bob, "bob-token")
        assert "kubectl create configmap" in (await bob.get("/scenarios")).text
        data = tmp_path / "reports" / "..data"  # as a kubelet mounts a ConfigMap that is created later
        data.mkdir(parents=True)
        (data / "two.json").write_text(json.dumps(REPORT))
        (folder / "two.json").symlink_to("..data/two.json")
        assert '<a href="/scenarios/two">two</a>' in (await bob.get("/scenarios")).text
        assert "all expectations hold" in (await bob.get("/scenarios/two")).text
        async with served.browser() as stranger:
            assert (await stranger.get("/scenarios/two")).status_code == 401


@pytest.mark.slow
async def test_an_update_reaches_only_those_who_may_read_it(served: Served) -> None:
    async with served.browser() as root, served.browser() as bob:
        await served.sign_in(root, "root-token")
        await served.sign_in(bob, "bob-token")
        await bob.get("/jobs")

        async def versions(client: httpx.AsyncClient, found: list[str]) -> None:
            async with client.stream("GET", "/events?after=-1") as events:
                async for line in events.aiter_lines():
                    found.append(line)

        received: dict[str, list[str]] = {"root": [], "bob": []}
        streams = [
            asyncio.create_task(versions(root, received["root"])),
            asyncio.create_task(versions(bob, received["bob"])),
        ]
        await eventually(lambda: all(received.values()))
        quiet = len(received["bob"])
        for body in (each for each in served.api.of("trainjobs") if each["metadata"]["name"] == "wide"):
            body["status"] = {"conditions": [{"type": "Suspended", "status": "True", "message": minutes_ago(1)}]}
            served.api.put("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", {**body, "status": body["status"]})
        late = served.api.of("trainjobs")[0] | {"metadata": {"name": "late", "namespace": "vision"}}
        served.api.put("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", late)
        while "late" not in (await root.get("/jobs")).text:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await eventually(lambda: sum(line.startswith("data:") for line in received["root"]) >= 2)
        assert "late" not in (await bob.get("/jobs")).text
        assert [each for each in received["bob"][quiet:] if each.startswith("data:")] == []
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.slow
async def test_a_right_that_is_taken_away_hides_what_was_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard.insight.console.live_source._LEASE_SECONDS", 0.02)
    monkeypatch.setattr("trainyard.insight.console.shared_reader._IDLE", 0.02)
    monkeypatch.setattr("trainyard.insight.console.cluster_server._WATCH_SECONDS", (1, 1))
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        assert "wide" in (await alice.get("/jobs")).text
        served.rights.namespaces["alice"].clear()
        async with asyncio.timeout(30), alice.stream("GET", "/events") as events:
            lines = events.aiter_lines()
            while "wide" in (await alice.get("/jobs")).text:
                await anext(lines)


@pytest.mark.parametrize("end", ["revoked", "another user", "away"])
async def test_a_token_that_is_not_accepted_any_more_ends_the_session(
    soon: None, served: Served, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        async with alice.stream("GET", "/events?after=-1") as events:
            lines = events.aiter_lines()
            assert (await anext(lines)).startswith("event: changed")
            match end:
                case "revoked":
                    del served.rights.tokens["alice-token"]
                case "another user":
                    served.rights.tokens["alice-token"] = "root"
                case "away":
                    monkeypatch.setattr(viewer_sessions, "CONFIRMED_SECONDS", 0.05)
                    served.rights.away = True
            async with asyncio.timeout(20):
                async for _ in lines:
                    pass
        answer = await alice.get("/jobs")
        assert answer.status_code == 401
        assert "wide" not in answer.text
        assert (await alice.get("/session")).status_code == 401


async def test_an_answer_that_is_missing_once_does_not_end_a_session(soon: None, served: Served) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        served.rights.away = True
        asked = len(served.rights.seen)
        await eventually(lambda: any("tokenreviews" in each[2] for each in served.rights.seen[asked:]))
        assert (await alice.get("/session")).status_code == 204


async def test_a_session_ends_with_the_sign_out(served: Served) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        cookies = dict(alice.cookies)
        answer = await alice.post("/sign-out", headers={"origin": served.base})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        assert not alice.cookies
        alice.cookies.update(cookies)
        assert (await alice.get("/")).status_code == 401


async def test_sessions_that_are_old_or_not_used_end(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_LONGEST_SECONDS", "_IDLE_SECONDS"):
        async with served.browser() as alice:
            await served.sign_in(alice, "alice-token")
            assert (await alice.get("/session")).status_code == 204
            with monkeypatch.context() as patched:
                patched.setattr(viewer_sessions, limit, 0.0)
                assert (await alice.get("/session")).status_code == 401
            assert (await alice.get("/")).status_code == 401


async def test_the_cookie_and_the_headers_of_answers(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served.browser() as client:
        answer = await served.sign_in(client, "root-token", "/jobs?state=Waiting")
        cookie = answer.headers["set-cookie"]
        assert answer.headers["location"] == "/jobs?state=Waiting"
        name, _, rest = cookie.partition("=")
        assert name.startswith("__Host-trainyard-console-")
        assert {each.strip().lower() for each in rest.split(";")[1:]} == {
            *("httponly", "secure", "samesite=strict", "path=/")
        }
        identifier = rest.partition(";")[0]
        assert len(identifier) >= 43
        again = (await served.sign_in(client, "root-token")).headers["set-cookie"]
        assert identifier not in again
        client.cookies.clear()
        assert (await client.get("/", headers={"cookie": f"{name}={identifier}"})).status_code == 401  # the former one
        for path in ("/", "/jobs", "/sign-in", "/assets/console.css", "/nothing"):
            found = await client.get(path)
            assert found.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            assert found.headers["cache-control"] == "no-store"
            assert "root-token" not in found.text
    own = "\n".join(each.getMessage() for each in caplog.records if not each.name.startswith("http"))
    assert "has signed in" in own
    for secret in ("root-token", identifier, ACCOUNT):
        assert secret not in own


@pytest.mark.parametrize(
    "target", ["//evil.example.com", "/\\evil.example.com", "https://evil.example.com", "/sign-out", "/" + "x" * 3000]
)
async def test_a_sign_in_leads_to_this_console_only(served: Served, target: str) -> None:
    async with served.browser() as client:
        location = (await served.sign_in(client, "bob-token", target)).headers["location"]
    assert location in ("/", "/evil.example.com")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example.com"}, 421),
        ({"host": f"{HOST}.evil.example.com"}, 421),
        ({"host": HOST}, 200),
        ({"host": f"{HOST}:8443"}, 200),
        ({"host": "LOCALHOST:1"}, 200),
        ({"origin": "https://evil.example.com"}, 403),
        ({"origin": "null"}, 403),
        ({"host": HOST, "origin": f"http://{HOST}"}, 403),
        ({"host": HOST, "origin": f"https://{HOST}"}, 200),
    ],
)
async def test_requests_of_other_pages_are_rejected(served: Served, headers: dict[str, str], status: int) -> None:
    async with served.browser() as client:
        answer = await client.get("/sign-in", headers=headers)
        assert answer.status_code == status


async def test_a_form_of_another_page_is_rejected(served: Served) -> None:
    async with served.browser() as client:
        await served.sign_in(client, "alice-token")
        for path in ("/sign-in", "/sign-out", "/queues/plan"):
            for headers in ({}, {"origin": "https://evil.example.com"}, {"origin": "null"}):
                assert (await client.post(path, data={"token": "bob-token"}, headers=headers)).status_code == 403
        assert (await client.get("/session")).status_code == 204
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert (await client.request(method, "/")).status_code == 405


async def test_forms_are_bounded(served: Served) -> None:
    async with served.browser() as client:
        origin = {"origin": served.base}
        assert (await served.sign_in(client, "x" * 40_000)).status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            yield b"token=alice-token"

        kind = {"content-type": "application/x-www-form-urlencoded"}
        for path in ("/sign-in", "/queues/plan"):
            for length in ({}, {"content-length": "10", "transfer-encoding": "chunked"}):
                answer = await client.post(path, content=chunks(), headers=origin | kind | length)
                assert (answer.status_code, answer.headers["connection"]) == (411, "close")
        files = await client.post("/sign-in", files={"token": b"alice-token"}, headers=origin)
        assert files.status_code == 415
        for token in ("", "x" * 20_000, "tökén", "two words", "a\nb"):
            assert (await served.sign_in(client, token)).status_code == 401
    assert not served.api.reviewed


async def test_attempts_are_bounded(served: Served) -> None:
    async with served.browser() as client:
        found = [(await served.sign_in(client, f"wrong-{number}")).status_code for number in range(12)]
    assert found == [401] * sign_in_limit.ATTEMPTS_OF_ADDRESS + [429] * 2
    assert len(served.api.reviewed) == sign_in_limit.ATTEMPTS_OF_ADDRESS


def test_attempts_of_all_addresses_are_bounded_for_a_minute() -> None:
    now = 0.0
    limit = sign_in_limit.SignInLimit(lambda: now)
    limit.accept("known")
    assert all(limit.take(f"address-{number}", "guess") for number in range(sign_in_limit.ATTEMPTS))
    assert not limit.take("another", "guess")
    found = [limit.take("another", "known") for _ in range(sign_in_limit.ATTEMPTS_OF_ACCEPTED + 1)]
    assert found == [True] * sign_in_limit.ATTEMPTS_OF_ACCEPTED + [False]
    now = 60.0
    assert limit.take("another", "guess")


async def test_requests_without_a_token_do_not_lock_out_others(served: Served) -> None:
    async with contextlib.AsyncExitStack() as stack, served.browser() as client:
        for _ in range(sign_in_limit.ATTEMPTS_OF_ADDRESS + 1):
            await held(served, stack, FORM)
            assert (await served.sign_in(client, "")).status_code == 401
        assert (await served.sign_in(client, "alice-token")).status_code == 303


@pytest.mark.slow
async def test_sessions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(tmp_path, sessions=2) as served, browsers(served, 3) as (first, second, third):
        await served.sign_in(first, "alice-token")
        await served.sign_in(second, "bob-token")
        answer = await served.sign_in(third, "root-token")
        assert answer.status_code == 503
        assert "in use" in answer.text
        monkeypatch.setattr(viewer_sessions, "_SHORT_IDLE_SECONDS", 0.0)
        assert (await first.get("/session")).status_code == 204
        await first.get("/jobs")
        assert (await served.sign_in(third, "root-token")).status_code == 303
        assert [(await each.get("/session")).status_code for each in (first, second, third)] == [204, 401, 204]


async def test_a_state_that_is_not_current_is_not_shown(served: Served) -> None:
    async with served.browser() as client:
        await served.sign_in(client, "alice-token")
        (reader,) = served.console.readers
        reader._known -= 61
        for path in PAGES:
            answer = await client.get(path)
            assert (answer.status_code, "not current" in answer.text) == (503, True)
            assert "vision" not in answer.text
        plan = await client.post("/queues/plan", data={"settings": "queues: {}"}, headers={"origin": served.base})
        assert plan.status_code == 503
        assert (await client.get("/session")).status_code == 204
        reader._known += 61
        assert "wide" in (await client.get("/jobs")).text


@pytest.mark.slow
async def test_readers_share_half_a_core_and_end_with_their_sessions(tmp_path: Path) -> None:
    async with console(tmp_path) as served, browsers(served, 3) as clients:
        for client, name in zip(clients, ("alice", "bob", "root"), strict=True):
            await served.sign_in(client, f"{name}-token")
        readers = served.console.readers
        assert [each._share() for each in readers] == pytest.approx([0.5 / 3] * 3)
        await clients[0].post("/sign-out", headers={"origin": served.base})
        assert [each._share() for each in readers] == [0.25] * 2


async def test_a_viewer_has_three_sessions(served: Served) -> None:
    async with browsers(served, 4) as clients:
        for client in clients:
            await served.sign_in(client, "alice-token")
        assert [(await each.get("/session")).status_code for each in clients] == [401, 204, 204, 204]


async def test_a_viewer_has_three_sessions_also_if_they_begin_together(served: Served) -> None:
    async with browsers(served, 6) as clients:
        found = await asyncio.gather(*(served.sign_in(client, "alice-token") for client in clients))
        assert sorted(each.status_code for each in found) == [303] * 3 + [503] * 3
        assert len(served.console.readers) == 3
        assert (await served.sign_in(clients[0], "bob-token")).status_code == 303


async def test_plans_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Semaphore(0), threading.Event()
    loop = asyncio.get_running_loop()

    def computed(*_: object) -> object:
        loop.call_soon_threadsafe(begun.release)
        assert go_on.wait(30)
        raise TrainyardError("no plan", fix="none")

    monkeypatch.setattr("trainyard.insight.console.web_application.snapshot_of_file", computed)
    async with browsers(served, 3) as clients:
        for client, name in zip(clients, ("alice", "bob", "root"), strict=True):
            await served.sign_in(client, f"{name}-token")

        async def plan(client: httpx.AsyncClient, text: str = "queues: {}") -> int:
            answer = await client.post("/queues/plan", data={"settings": text}, headers={"origin": served.base})
            return answer.status_code

        assert await plan(clients[0], "#" * (CLUSTER_SETTINGS + 1)) == 413
        try:
            running = [asyncio.create_task(plan(clients[0]))]
            await begun.acquire()
            assert await plan(clients[0]) == 429
            running.append(asyncio.create_task(plan(clients[1])))
            await begun.acquire()
            assert await plan(clients[2]) == 429
        finally:
            go_on.set()
        assert await asyncio.gather(*running) == [422] * 2
        assert await plan(clients[2]) == 422


async def test_probes_need_no_session_and_show_nothing(served: Served) -> None:
    async with served.browser() as client:
        for path in ("/healthz", "/readyz"):
            answer = await client.get(path, headers={"host": "10.0.0.7:9443"})
            assert (answer.status_code, answer.text) == (200, "ok")


async def held(served: Served, stack: contextlib.AsyncExitStack, text: str = "") -> asyncio.StreamReader:
    """Open a connection that sends a part of a request."""
    address = httpx.URL(served.base)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", address.port, ssl=served.trust, server_hostname="localhost"
    )
    stack.callback(writer.transport.abort)
    writer.write(text.replace("HOST", address.netloc.decode()).encode())
    return reader


FORM = "POST /sign-in HTTP/1.1\r\nHost: HOST\r\nOrigin: https://HOST\r\n"
FORM += "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize("text", ["", "GET / HTTP/1.1\r\n", FORM, FORM + "token"])
async def test_a_request_that_is_not_completed_ends(served: Served, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(bounded_protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(bounded_protocol, "BODY_SECONDS", 0.2)
    async with contextlib.AsyncExitStack() as stack:
        reader = await held(served, stack, text)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


@pytest.mark.parametrize("bound", ["CONNECTIONS", "OF_ADDRESS"])
async def test_held_connections_do_not_keep_out_probes(
    served: Served, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(bounded_protocol, bound, 8)
    async with contextlib.AsyncExitStack() as stack, served.browser() as client:
        first = await held(served, stack)
        for _ in range(20):
            await held(served, stack)
        assert (await client.get("/healthz")).status_code == 200
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await first.read() == b""  # the oldest ends, long before its deadline
        assert (await served.sign_in(client, "alice-token")).status_code == 303


async def test_a_page_of_another_site_leads_to_one_with_the_cookie(served: Served) -> None:
    async with served.browser() as client:
        answer = await client.get("/jobs?state=Waiting", headers={"sec-fetch-site": "cross-site"})
        assert 'content="0; url=/jobs?state=Waiting"' in answer.text
        assert "http-equiv" not in (await client.get("/jobs", headers={"sec-fetch-site": "same-origin"})).text


def test_a_renewed_certificate_is_served(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="has no valid certificate"):
        ServingFiles(tmp_path)
    certificate(tmp_path)
    files = ServingFiles(tmp_path)
    before = files._loaded
    (tmp_path / "tls.crt").write_text("half")
    files.refresh()
    assert files._loaded == before
    certificate(tmp_path)
    files.refresh()
    assert files._loaded != before


@pytest.mark.slow
async def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    rights, api = Rights(), FakeApi()
    api.fault, api.review = rights.fault, rights.review
    trust = certificate(tmp_path)
    async with serving(api):
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", {"token": ACCOUNT})
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "console", "serve", f"--certificate={tmp_path}", f"--kubeconfig={config}"),
            *("--listen=127.0.0.1", "--port=0", "--host=a.example.com", "--namespace=vision", "--log-level=debug"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        lines: list[str] = []
        while "serving on port" not in "".join(lines[-1:]):
            lines.append((await process.stderr.readline()).decode())
            assert lines[-1], lines
        served = Served(int(lines[-1].split()[-1]), trust, api, rights)
        try:
            async with served.browser() as client:
                assert (await client.get("/readyz")).status_code == 200
                assert (await served.sign_in(client, "alice-token")).status_code == 303
                assert "alice" in (await client.get("/jobs")).text
        finally:
            process.terminate()
            rest = (await asyncio.wait_for(process.stderr.read(), 20)).decode()
        assert await process.wait() in (0, -signal.SIGTERM)
    for secret in (ACCOUNT, "alice-token"):
        assert secret not in "".join(lines) + rest


@pytest.mark.slow
async def test_after_a_kill_viewers_sign_in_again(tmp_path: Path) -> None:
    rights, api = Rights(), FakeApi()
    api.fault, api.review = rights.fault, rights.review
    trust = certificate(tmp_path)

    @contextlib.asynccontextmanager
    async def started(port: int) -> AsyncIterator[tuple[asyncio.subprocess.Process, Served]]:
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "console", "serve", f"--certificate={tmp_path}", f"--kubeconfig={config}"),
            *("--listen=127.0.0.1", f"--port={port}", "--host=a.example.com", "--namespace=vision"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        line = ""
        while "serving on port" not in line:
            line = (await process.stderr.readline()).decode()
            assert line
        try:
            yield process, Served(int(line.split()[-1]), trust, api, rights)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async with serving(api):
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", {"token": ACCOUNT})
        async with started(0) as (first, served), served.browser() as client:
            await served.sign_in(client, "alice-token")
            assert (await client.get("/jobs")).status_code == 200
            first.kill()
            assert await first.wait() == -signal.SIGKILL
            async with started(int(served.base.rpartition(":")[2])) as (_, again):
                assert (await client.get("/jobs")).status_code == 401
                await again.sign_in(client, "alice-token")
                assert "alice" in (await client.get("/jobs")).text


@pytest.mark.slow
async def test_a_browser_signs_in_and_returns_to_the_sign_in(soon: None, served: Served) -> None:
    if reason := driver.reason_to_skip():
        pytest.skip(reason)

    def signed_in(found: driver.Browser) -> None:
        found.command("Security.setIgnoreCertificateErrors", ignore=True)
        found.open(f"{served.base}/jobs?state=Running")
        assert found.violations() == []
        found.run("document.querySelector('#token').value = 'alice-token'; document.querySelector('form').submit()")
        found.wait("return document.readyState === 'complete' && document.querySelector('.viewer') !== null")
        assert found.run("return location.pathname + location.search") == "/jobs?state=Running"
        assert "wide" in found.run("return document.querySelector('#page').innerText")
        assert found.run("return document.cookie") == ""
        assert found.violations() == []

    def left(found: driver.Browser) -> None:
        found.wait("return document.querySelector('#token') !== null")
        assert "wide" not in found.run("return document.body.innerText")

    def signed_out(found: driver.Browser) -> None:
        found.run("document.querySelector('.viewer form, form.viewer').querySelector('button').click()")
        found.wait("return document.readyState === 'complete' && location.pathname === '/sign-in'")
        found.open(f"{served.base}/jobs")
        assert found.run("return document.querySelector('#token') !== null")

    with driver.browser() as found:
        await asyncio.to_thread(signed_in, found)
        assert [each for each in await asyncio.to_thread(found.errors) if "401" not in each] == []
        del served.rights.tokens["alice-token"]
        await asyncio.to_thread(left, found)
        served.rights.tokens["alice-token"] = "alice"
        await asyncio.to_thread(signed_in, found)
        await asyncio.to_thread(signed_out, found)
