"""Console of several viewers: tokens in cookies and of a proxy, what each may see, and requests of other pages."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from tests.console import browser as driver
from tests.console.served_console import PROGRAM
from tests.console.test_access_guard import PAGES
from tests.console.test_pages import REPORT
from tests.console.viewers import ACCOUNT, HOST, Served, certificate, console
from tests.explain.recorded_clusters import minutes_ago
from tests.kube.fake_api import eventually
from tests.kube.kubeconfigs import kubeconfig
from trainyard.errors import TrainyardError
from trainyard.insight.console import cluster_server, live_source, viewer_credential, viewer_readers
from trainyard.insight.console.live_source import LiveSource
from trainyard.insight.console.page_headers import CONTENT_SECURITY_POLICY
from trainyard.insight.console.page_server import LIMITS
from trainyard.insight.console.plan_limit import CLUSTER_SETTINGS
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.serving_certificate import ServingFiles
from trainyard.insight.console.shared_reader import MAX_VIEWERS
from trainyard.insight.console.viewer_credential import ViewerCookie
from trainyard.insight.console.viewer_readers import OpenedReader, ViewerReaders
from trainyard.kube.api_errors import CredentialsError

LISTS = tuple(path for path in PAGES if not path.startswith("/jobs/"))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with console(tmp_path) as found:
        yield found


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use each token for a read at once."""
    monkeypatch.setattr(live_source, "_LEASE_SECONDS", 0.02)
    monkeypatch.setattr(viewer_readers, "CHECK_SECONDS", 0.02)


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
    assert {path for _, method, path in served.rights.seen if method != "GET"} == {
        "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    }
    assert ACCOUNT not in {token for token, _, _ in served.rights.seen}
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
        # The second version has the reason of the job that both may read: explained in the background.
        await eventually(lambda: all("data: 2" in each for each in received.values()))
        quiet = {name: len(lines) for name, lines in received.items()}
        for body in (each for each in served.api.of("trainjobs") if each["metadata"]["name"] == "wide"):
            body["status"] = {"conditions": [{"type": "Suspended", "status": "True", "message": minutes_ago(1)}]}
            served.api.put("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", {**body, "status": body["status"]})
        late = served.api.of("trainjobs")[0] | {"metadata": {"name": "late", "namespace": "vision"}}
        served.api.put("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", late)
        while "late" not in (await root.get("/jobs")).text:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await eventually(lambda: any(line.startswith("data:") for line in received["root"][quiet["root"] :]))
        assert "late" not in (await bob.get("/jobs")).text
        assert [each for each in received["bob"][quiet["bob"] :] if each.startswith("data:")] == []
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


async def test_a_token_that_is_not_accepted_any_more_shows_nothing(soon: None, served: Served) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        async with alice.stream("GET", "/events?after=-1") as events:
            lines = events.aiter_lines()
            assert (await anext(lines)).startswith("event: changed")
            del served.rights.tokens["alice-token"]
            async with asyncio.timeout(20):
                async for _ in lines:
                    pass
        answer = await alice.get("/jobs")
        assert answer.status_code == 401
        assert "wide" not in answer.text
        assert (await alice.get("/session")).status_code == 401
        assert served.console.readers == []


async def test_without_an_answer_for_a_minute_nothing_is_shown(
    soon: None, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        served.rights.away = True
        asked = len(served.rights.seen)
        await eventually(lambda: any("leases" in each[2] for each in served.rights.seen[asked:]))
        assert "wide" in (await alice.get("/jobs")).text, "one answer that is missing does not matter"
        monkeypatch.setattr(viewer_readers, "_ACCEPTED_SECONDS", 0.05)
        await asyncio.sleep(0.1)
        answer = await alice.get("/jobs")
        assert (answer.status_code, "not current" in answer.text, "wide" in answer.text) == (503, True, False)
        served.rights.away = False
        async with asyncio.timeout(20):
            while "not current" in (await alice.get("/jobs")).text:
                pass


async def test_a_sign_out_deletes_the_cookie_and_ends_the_pages(served: Served) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        async with alice.stream("GET", "/events?after=-1") as events:
            answer = await alice.post("/sign-out", headers={"origin": served.base})
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
            async with asyncio.timeout(20):
                await events.aread()
        assert not alice.cookies
        assert (await alice.get("/")).status_code == 401
        await eventually(lambda: served.console.readers == [])


async def test_a_cookie_that_is_old_is_not_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        assert (await alice.get("/session")).status_code == 204
        monkeypatch.setattr(viewer_credential, "COOKIE_SECONDS", -1)
        assert (await alice.get("/session")).status_code == 401
        assert (await alice.get("/")).status_code == 401


async def test_a_reader_that_is_not_used_ends_and_starts_again(
    soon: None, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served.browser() as alice:
        await served.sign_in(alice, "alice-token")
        with monkeypatch.context() as patched:
            patched.setattr(viewer_readers, "_UNUSED_SECONDS", 0.0)
            await eventually(lambda: served.console.readers == [])
        assert "wide" in (await alice.get("/jobs")).text


async def test_a_proxy_passes_on_the_token_of_a_viewer(served: Served) -> None:
    async with served.browser("alice-token") as alice, served.browser("bob-token") as bob:
        text = (await alice.get("/jobs")).text
        assert "/vision/wide" in text
        assert "alice" in text
        assert "Sign out" not in text
        assert "/vision/wide" not in (await bob.get("/jobs")).text
        await served.sign_in(bob, "alice-token")
        assert "/language/waits" in (await bob.get("/jobs")).text, "the proxy's user, whatever the cookie"
        for status, headers in ((421, {"host": "evil.example.com"}), (403, {"origin": "https://evil.example.com"})):
            assert (await alice.get("/jobs", headers=headers)).status_code == status
        assert (await alice.post("/queues/plan", data={"settings": "x"})).status_code == 403
        long = "t" * (viewer_credential.MAX_COOKIE_TOKEN + 1)
        served.rights.tokens[long] = "alice"
        assert "/vision/wide" in (await alice.get("/jobs", headers={"authorization": f"bearer {long}"})).text
        answer = await served.sign_in(bob, long)
        assert answer.status_code == 413
        assert "too long for a cookie: 2900 characters" in answer.text
    assert ACCOUNT not in {token for token, _, _ in served.rights.seen}


@pytest.mark.parametrize("value", ["Bearer wrong", "Bearer", "Bearer a b", "Bearer " + "x" * 20_000, "Basic cm9vdA=="])
async def test_a_token_of_a_proxy_that_is_none_shows_nothing(served: Served, value: str) -> None:
    async with served.browser() as client:
        answer = await client.get("/jobs", headers={"authorization": value})
        assert answer.status_code == 401
        assert "vision" not in answer.text


def test_every_replica_reads_the_cookie_and_others_do_not(tmp_path: Path) -> None:
    def asked(cookie: str) -> web.Request:
        return make_mocked_request("GET", "/", {"host": HOST, "cookie": cookie})

    certificate(tmp_path)
    first, second = ViewerCookie(tmp_path), ViewerCookie(tmp_path)
    longest = "t" * viewer_credential.MAX_COOKIE_TOKEN
    answer = web.Response()
    first.store(asked(""), answer, longest)
    (stored,) = (each.OutputString() for each in answer.cookies.values())
    assert len(stored) <= 4096
    cookie = stored.partition(";")[0]
    assert longest[:32] not in cookie
    assert second.token(asked(f"other=1; {cookie}")) == longest
    name = cookie.partition("=")[0]
    for wrong in ("", f"{name}=", f"{name}={longest}", f"{cookie}; {cookie}", cookie[:-9], f"{cookie}é", f"x{cookie}"):
        assert second.token(asked(wrong)) is None, wrong
    certificate(tmp_path)
    first._cipher.current(now=True)
    assert first.token(asked(cookie)) == longest, "after the renewal of the certificate"
    assert ViewerCookie(tmp_path).token(asked(cookie)) is None, "of another key"


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
        for path in ("/", "/jobs", "/sign-in", "/assets/console.css", "/nothing"):
            found = await client.get(path)
            assert found.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            assert found.headers["cache-control"] == "no-store"
            assert "root-token" not in found.text
    own = "\n".join(each.getMessage() for each in caplog.records if not each.name.startswith("http"))
    assert "a reader of 'root' starts" in own
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
            both = {"content-length": "10", "transfer-encoding": "chunked"}
            answer = await client.post(path, content=chunks(), headers=origin | kind)
            assert (answer.status_code, answer.headers["connection"]) == (411, "close")
            answer = await client.post(path, content=chunks(), headers=origin | kind | both)
            assert (answer.status_code, answer.http_version) == (400, "HTTP/1.0"), "which closes"
        files = await client.post("/sign-in", files={"token": b"alice-token"}, headers=origin)
        assert files.status_code == 415
        for token in ("", "x" * 20_000, "tökén", "two words", "a\nb"):
            assert (await served.sign_in(client, token)).status_code == 401
    assert not served.rights.seen


async def test_unknown_tokens_are_sent_to_the_api_server_eight_at_a_time() -> None:
    asked, go_on = 0, asyncio.Event()

    async def viewer_of(_: str) -> str:
        nonlocal asked
        asked += 1
        await go_on.wait()
        raise CredentialsError("no", fix="none")

    async def open_reader(*_: str) -> OpenedReader:
        raise AssertionError

    readers = ViewerReaders(viewer_of, open_reader, most=10)
    attempts = [asyncio.create_task(readers.of(f"wrong-{number}")) for number in range(12)]
    await eventually(lambda: sum(each.done() for each in attempts) == 4)
    assert asked == 8
    go_on.set()
    found = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(each.status for each in found if isinstance(each, web.HTTPError)) == [401] * 8 + [429] * 4


@pytest.mark.slow
async def test_viewers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(tmp_path, sessions=2) as served, browsers(served, 3) as (first, second, third):
        await served.sign_in(first, "alice-token")
        await served.sign_in(second, "bob-token")
        answer = await served.sign_in(third, "root-token")
        assert answer.status_code == 503
        assert "Too many viewers" in answer.text
        monkeypatch.setattr(viewer_readers, "_SHORT_UNUSED_SECONDS", 0.0)
        assert (await served.sign_in(third, "root-token")).status_code == 303
        await eventually(lambda: len(served.console.readers) == 2)
        assert "wide" in (await first.get("/jobs")).text, "its reader starts again"


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
async def test_readers_share_half_a_core_and_end_with_the_sign_out(tmp_path: Path) -> None:
    async with console(tmp_path) as served, browsers(served, 3) as clients:
        for client, name in zip(clients, ("alice", "bob", "root"), strict=True):
            await served.sign_in(client, f"{name}-token")
        readers = served.console.readers
        assert [each._share() for each in readers] == pytest.approx([0.5 / 3] * 3)
        await clients[0].post("/sign-out", headers={"origin": served.base})
        await eventually(lambda: len(readers) == 2)
        assert [each._share() for each in readers] == [0.25] * 2


async def test_a_viewer_has_three_readers(served: Served) -> None:
    served.rights.tokens |= {f"alice-{number}": "alice" for number in range(10)}
    async with browsers(served, 4) as clients:
        for number, client in enumerate(clients):
            await served.sign_in(client, f"alice-{number}")
        await eventually(lambda: len(served.console.readers) == 3)
        assert "wide" in (await clients[0].get("/jobs")).text


async def test_a_viewer_has_three_readers_also_if_they_begin_together(served: Served) -> None:
    served.rights.tokens |= {f"alice-{number}": "alice" for number in range(10)}
    async with browsers(served, 6) as clients:
        found = await asyncio.gather(*(served.sign_in(each, f"alice-{n}") for n, each in enumerate(clients)))
        assert sorted(each.status_code for each in found) == [303] * 3 + [503] * 3
        assert len(served.console.readers) == 3
        assert (await served.sign_in(clients[0], "bob-token")).status_code == 303


async def test_requests_with_one_token_share_a_reader(served: Served) -> None:
    async with browsers(served, 6) as clients:
        found = await asyncio.gather(*(served.sign_in(each, "alice-token") for each in clients))
        assert [each.status_code for each in found] == [303] * 6
        assert len(served.console.readers) == 1


@pytest.mark.slow
async def test_a_list_that_does_not_answer_holds_no_viewer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hanging(_: LiveSource) -> None:
        await asyncio.Event().wait()

    async with served.browser("alice-token") as alice, served.browser("bob-token") as bob:
        with monkeypatch.context() as changed:
            changed.setattr(viewer_readers, "START_SECONDS", 0.5)
            changed.setattr(LiveSource, "start", hanging)
            found = await asyncio.gather(alice.get("/jobs"), bob.get("/jobs"))
            assert [each.status_code for each in found] == [503] * 2
        assert "/vision/wide" in (await alice.get("/jobs")).text


async def test_a_cluster_that_cannot_be_read_is_read_again(served: Served) -> None:
    async with served.browser("alice-token") as alice:
        served.rights.away = True
        assert (await alice.get("/jobs")).status_code == 503
        served.rights.away = False
        assert "/vision/wide" in (await alice.get("/jobs")).text


@pytest.fixture
async def computing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[asyncio.Semaphore, threading.Event]]:
    """Plans that begin to compute, and what lets them go on."""
    begun, go_on = asyncio.Semaphore(0), threading.Event()
    loop = asyncio.get_running_loop()

    def computed(*_: object) -> object:
        loop.call_soon_threadsafe(begun.release)
        assert go_on.wait(30)
        raise TrainyardError("no plan", fix="none")

    monkeypatch.setattr("trainyard.insight.console.web_application.snapshot_of_file", computed)
    yield begun, go_on
    go_on.set()


async def test_plans_are_bounded(served: Served, computing: tuple[asyncio.Semaphore, threading.Event]) -> None:
    begun, go_on = computing
    async with browsers(served, 3) as clients:
        for client, name in zip(clients, ("alice", "bob", "root"), strict=True):
            await served.sign_in(client, f"{name}-token")

        async def plan(client: httpx.AsyncClient, text: str = "queues: {}") -> int:
            answer = await client.post("/queues/plan", data={"settings": text}, headers={"origin": served.base})
            return answer.status_code

        assert await plan(clients[0], "#" * (CLUSTER_SETTINGS + 1)) == 413
        running = [asyncio.create_task(plan(clients[0]))]
        await begun.acquire()
        assert await plan(clients[0]) == 429
        running.append(asyncio.create_task(plan(clients[1])))
        await begun.acquire()
        assert await plan(clients[2]) == 429
        go_on.set()
        assert await asyncio.gather(*running) == [422] * 2
        assert await plan(clients[2]) == 422


async def test_a_plan_counts_until_it_is_computed_also_without_its_viewer(
    served: Served, computing: tuple[asyncio.Semaphore, threading.Event]
) -> None:
    async with served.browser() as client:
        await served.sign_in(client, "root-token")
        request = {"data": {"settings": "queues: {}"}, "headers": {"origin": served.base}}
        left = asyncio.create_task(client.post("/queues/plan", **request))
        await computing[0].acquire()
        left.cancel()
        assert (await client.post("/queues/plan", **request)).status_code == 429


async def test_pages_that_are_closed_make_room_for_updates_of_others(served: Served) -> None:
    async with served.browser() as client:
        await served.sign_in(client, "root-token")
        async with contextlib.AsyncExitStack() as pages:
            for status in [200] * MAX_VIEWERS + [503]:
                events = await pages.enter_async_context(client.stream("GET", "/events?after=-1"))
                assert events.status_code == status
        (reader,) = served.console.readers
        await eventually(lambda: reader.viewers == 0, within=5)  # before the next heartbeat


async def test_an_invalid_request_is_not_logged(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    async with contextlib.AsyncExitStack() as stack:
        reader = await held(served, stack, "GET / HTTP/1.1\r\nAuthorization: Bearer s3cret\x01\r\n\r\n")
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 10)
    assert "Error handling request" in caplog.text
    assert "s3cret" not in caplog.text


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
    stack.callback(lambda: writer.transport.abort())  # also keeps the writer, whose end would close it
    writer.write(text.replace("HOST", address.netloc.decode()).encode())
    return reader


FORM = "POST /sign-in HTTP/1.1\r\nHost: HOST\r\nOrigin: https://HOST\r\n"
FORM += "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize("text", ["", "GET / HTTP/1.1\r\n", FORM, FORM + "token"])
async def test_a_request_that_is_not_completed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    limits = dataclasses.replace(LIMITS, idle_seconds=0.2, body_seconds=0.2)
    monkeypatch.setattr(cluster_server, "LIMITS", limits)
    async with console(tmp_path) as served, contextlib.AsyncExitStack() as stack:
        reader = await held(served, stack, text)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


@pytest.mark.parametrize("bound", ["connections", "of_address"])
async def test_held_connections_do_not_keep_out_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(cluster_server, "LIMITS", dataclasses.replace(LIMITS, **{bound: 8}))
    async with console(tmp_path) as served, contextlib.AsyncExitStack() as stack, served.browser() as client:
        first = await held(served, stack)
        for _ in range(20):
            await held(served, stack)
        assert (await client.get("/healthz")).status_code == 200
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await first.read() == b""  # the oldest ends, long before its deadline
        assert (await served.sign_in(client, "alice-token")).status_code == 303


UNREAD = "GET /assets/htmx.min.js HTTP/1.1\r\nHost: HOST\r\n\r\n" * 300
"""Requests with answers of 15 MB, which no buffer holds."""


async def test_answers_that_are_not_read_do_not_keep_out_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_server, "LIMITS", dataclasses.replace(LIMITS, of_address=4))
    async with console(tmp_path) as served, contextlib.AsyncExitStack() as stack, served.browser() as client:
        for _ in range(4):
            assert await (await held(served, stack, UNREAD)).read(1)
        async with asyncio.timeout(10):
            while True:  # until the buffers are full
                with contextlib.suppress(httpx.TransportError):
                    assert (await client.get("/healthz")).status_code == 200
                    break


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


@contextlib.asynccontextmanager
async def started(folder: Path, base: str = "") -> AsyncIterator[tuple[asyncio.subprocess.Process, str, list[str]]]:
    """Run the command; yield its address and what it has logged."""
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "console", "serve", f"--certificate={folder}", f"--kubeconfig={folder / 'kubeconfig'}"),
        *("--listen=127.0.0.1", f"--port={base.rpartition(':')[2] or 0}", "--host=a.example.com"),
        *("--namespace=vision", "--log-level=debug"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        while "serving on port" not in "".join(lines[-1:]):
            lines.append((await process.stderr.readline()).decode())
            assert lines[-1], lines
        yield process, f"https://127.0.0.1:{lines[-1].split()[-1]}", lines
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.slow
async def test_the_command_serves_until_it_is_stopped(tmp_path: Path, served: Served) -> None:
    kubeconfig(tmp_path, f"http://127.0.0.1:{served.api.port}", {"token": ACCOUNT})
    async with started(tmp_path) as (process, served.base, lines), served.browser() as client:
        assert (await client.get("/readyz")).status_code == 200
        assert (await served.sign_in(client, "alice-token")).status_code == 303
        assert "alice" in (await client.get("/jobs")).text
        process.terminate()
        assert process.stderr is not None
        rest = (await asyncio.wait_for(process.stderr.read(), 20)).decode()
        assert await process.wait() == 0
    for secret in (ACCOUNT, "alice-token"):
        assert secret not in "".join(lines) + rest


@pytest.mark.slow
async def test_after_a_kill_viewers_stay_signed_in(tmp_path: Path, served: Served) -> None:
    kubeconfig(tmp_path, f"http://127.0.0.1:{served.api.port}", {"token": ACCOUNT})
    async with started(tmp_path) as (first, served.base, _), served.browser() as client:
        await served.sign_in(client, "alice-token")
        assert (await client.get("/jobs")).status_code == 200
        first.kill()
        assert await first.wait() == -signal.SIGKILL
        async with started(tmp_path, served.base):
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

    def again(found: driver.Browser) -> None:
        found.open(f"{served.base}/jobs")
        assert "wide" in found.run("return document.querySelector('#page').innerText"), "its cookie is still valid"

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
        await asyncio.to_thread(again, found)
        await asyncio.to_thread(signed_out, found)
