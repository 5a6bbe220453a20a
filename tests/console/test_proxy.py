"""Console behind an authenticating proxy: who may name users, and that SubjectAccessReviews decide what they see."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from starlette.applications import Starlette

from tests.console.recorded_platform import platform
from tests.console.test_sessions import LISTS
from tests.console.viewers import ACCOUNT, HOST, Served, certificate, client_context, console
from trainyard.insight.console import cluster_server, filtered_source, proxy_guard
from trainyard.insight.console.access_review import NOTHING, Granted
from trainyard.insight.console.cluster_server import ProxyAccess
from trainyard.insight.console.live_source import LiveSource
from trainyard.insight.console.recorded_source import RecordedSource
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.viewer_sessions import OpenedReader
from trainyard.kube.reviews import User

NAME = "front-proxy"


class Proxied(NamedTuple):
    served: Served
    context: ssl.SSLContext

    def user(self, name: str, *groups: str, context: ssl.SSLContext | None = None) -> httpx.AsyncClient:
        headers = [("X-Remote-User", name), *(("X-Remote-Group", each) for each in groups)]
        base = self.served.proxy
        return httpx.AsyncClient(base_url=base, verify=context or self.context, headers=headers, timeout=30)


@contextlib.asynccontextmanager
async def behind_proxy(folder: Path, **options: object) -> AsyncIterator[Proxied]:
    certificate(folder)
    client_context(folder, NAME, trust=folder / "server-ca.crt")
    async with console(folder, proxy=ProxyAccess(folder / "clients.crt", (NAME,), 0), **options) as served:
        # The console has a new certificate of its own, and the same authority of clients.
        context = ssl.create_default_context(cafile=str(folder / "server-ca.crt"))
        context.load_cert_chain(folder / "client.pem")
        yield Proxied(served, context)


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[Proxied]:
    async with behind_proxy(tmp_path) as found:
        yield found


@pytest.mark.slow
async def test_users_see_what_access_reviews_grant(proxied: Proxied) -> None:
    async with proxied.user("alice") as alice, proxied.user("bob") as bob:
        for client, own, other in (
            (alice, ("vision", "wide"), ("language", "waits")),
            (bob, ("language", "waits"), ("vision", "wide")),
        ):
            assert f"/{own[0]}/{own[1]}" in (await client.get("/jobs")).text
            for path in (*LISTS, "/fabric?color=job", "/fabric?color=tenant"):
                text = (await client.get(path)).text
                assert not any(each in text for each in (f"/{other[0]}/", f"{other[0]}/{other[1]}")), path
                assert "Sign out" not in text
            assert (await client.get(f"/jobs/trainjob/{other[0]}/{other[1]}")).status_code == 404
            logs = await client.get(f"/jobs/trainjob/{other[0]}/{other[1]}/logs?pod={other[1]}-0&container=node")
            assert logs.status_code == 404
            origin = {"origin": proxied.served.proxy}
            plan = await client.post("/queues/plan", data={"settings": "queues: {}"}, headers=origin)
            assert plan.status_code in (200, 422)
            assert f"{other[0]}/{other[1]}" not in plan.text
    reads = {(token, method) for token, method, _ in proxied.served.rights.seen}
    assert reads == {(ACCOUNT, "GET"), (ACCOUNT, "POST")}
    posted = {path.rsplit("/", 1)[-1] for _, method, path in proxied.served.rights.seen if method == "POST"}
    assert posted == {"subjectaccessreviews"}


async def test_logs_are_not_shown(proxied: Proxied) -> None:
    async with proxied.user("alice") as alice:
        pod = next(p["metadata"]["name"] for p in proxied.served.api.of("pods") if "wide" in p["metadata"]["name"])
        page = (await alice.get("/jobs/trainjob/vision/wide")).text
        assert pod in page
        containers = {
            each["name"]
            for body in proxied.served.api.of("pods")
            if body["metadata"]["name"] == pod
            for each in body["spec"]["containers"]
        }
        answer = await alice.get(f"/jobs/trainjob/vision/wide/logs?pod={pod}&container={min(containers)}")
        assert answer.status_code == 422
        assert "not shown to viewers of a proxy" in answer.text
    assert not any(path.endswith("/log") for _, _, path in proxied.served.rights.seen)


async def test_groups_grant_and_make_another_viewer(proxied: Proxied) -> None:
    proxied.served.rights.groups["ml"] = {"vision"}
    async with proxied.user("carol", "ml") as member, proxied.user("carol") as other:
        assert "/vision/wide" in (await member.get("/jobs")).text
        assert "/vision/wide" not in (await other.get("/jobs")).text


async def test_every_verb_is_needed(proxied: Proxied) -> None:
    proxied.served.rights.refused = {"watch"}
    async with proxied.user("root") as root:
        assert "/vision/" not in (await root.get("/jobs")).text


@pytest.mark.slow
@pytest.mark.parametrize("failing", [False, True])
async def test_a_decision_ends_with_the_right_or_without_reviews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    monkeypatch.setattr(filtered_source, "_REVIEW_SECONDS", 0.05)
    monkeypatch.setattr(filtered_source, "_RETRY_SECONDS", 1.0)
    monkeypatch.setattr(filtered_source, "_GRANTED_SECONDS", 0.1)
    monkeypatch.setattr("trainyard.insight.console.shared_reader._IDLE", 0.02)
    async with behind_proxy(tmp_path) as proxied, proxied.user("alice") as alice:
        assert "/vision/wide" in (await alice.get("/jobs")).text
        async with asyncio.timeout(30), alice.stream("GET", "/events") as events:
            lines = events.aiter_lines()
            if failing:
                proxied.served.rights.away = True
            else:
                proxied.served.rights.namespaces["alice"].clear()
            while "/vision/wide" in (await alice.get("/jobs")).text:
                await anext(lines)


async def test_a_state_that_is_not_current_is_not_shown(proxied: Proxied) -> None:
    async with proxied.user("alice") as alice:
        assert (await alice.get("/jobs")).status_code == 200
        proxied.served.console.readers[0]._known -= 61
        answer = await alice.get("/jobs")
        assert (answer.status_code, "not current" in answer.text) == (503, True)


async def test_a_lost_right_takes_effect_before_a_pause_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_source, "_REVIEW_SECONDS", 0.05)
    monkeypatch.setattr("trainyard.insight.console.shared_reader._SHORTEST", 600.0)
    async with behind_proxy(tmp_path) as proxied, proxied.user("alice", "ml") as alice:
        proxied.served.rights.namespaces["alice"] = {"vision", "language"}
        assert "/vision/wide" in (await alice.get("/jobs")).text
        proxied.served.rights.namespaces["alice"] = {"language"}
        async with asyncio.timeout(30):
            while "/vision/wide" in (text := (await alice.get("/jobs")).text):
                pass
        assert "/language/waits" in text


def test_grants_that_allow_all_of_others_cover_them() -> None:
    one, every = Granted(inside=frozenset({("Pod", "a")})), Granted(frozenset({"Pod"}))
    assert every.covers(one)
    assert one.covers(NOTHING)
    assert not one.covers(every)
    assert not one.covers(Granted(inside=frozenset({("Pod", "b")})))


@pytest.mark.slow
async def test_an_update_reaches_only_those_who_may_read_it(proxied: Proxied) -> None:
    async with proxied.user("root") as root, proxied.user("bob") as bob:
        assert "late" not in (await root.get("/jobs")).text
        await bob.get("/jobs")
        async with root.stream("GET", "/events") as events:
            lines = events.aiter_lines()
            late = proxied.served.api.of("trainjobs")[0] | {"metadata": {"name": "late", "namespace": "vision"}}
            proxied.served.api.put("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", late)
            async with asyncio.timeout(30):
                while "/vision/late" not in (await root.get("/jobs")).text:
                    await anext(lines)
        assert "late" not in (await bob.get("/jobs")).text


async def rejected(proxied: Proxied, context: ssl.SSLContext) -> None:
    with pytest.raises((httpx.TransportError, ssl.SSLError)):
        async with proxied.user("root", "system:masters", context=context) as client:
            await client.get("/jobs")


async def test_only_the_proxy_of_the_authority_may_name_users(proxied: Proxied, tmp_path: Path) -> None:
    trust = tmp_path / "server-ca.crt"
    folder = tmp_path / "others"
    folder.mkdir()
    await rejected(proxied, ssl.create_default_context(cafile=str(trust)))  # no certificate
    await rejected(proxied, client_context(folder, NAME, trusted=False, trust=trust))  # of another authority
    assert not proxied.served.rights.seen


async def test_a_certificate_of_the_authority_with_another_name_is_rejected(tmp_path: Path) -> None:
    certificate(tmp_path)
    client_context(tmp_path, "someone-else", trust=tmp_path / "server-ca.crt")
    async with console(tmp_path, proxy=ProxyAccess(tmp_path / "clients.crt", (NAME,), 0)) as served:
        context = ssl.create_default_context(cafile=str(tmp_path / "server-ca.crt"))
        context.load_cert_chain(tmp_path / "client.pem")
        await rejected(Proxied(served, context), context)
        assert not served.rights.seen


async def test_the_port_of_viewers_reads_no_headers_of_a_proxy(proxied: Proxied) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    async with httpx.AsyncClient(base_url=proxied.served.base, verify=proxied.context, headers=headers) as client:
        assert (await client.get("/jobs")).status_code == 401
        await proxied.served.sign_in(client, "bob-token")
        assert "/vision/" not in (await client.get("/jobs")).text


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-Remote-Group", "system:masters")],
        [("X-Remote-User", "")],
        [("X-Remote-User", "alice"), ("X-Remote-User", "root")],
        [("X-Remote-User", "x" * 300)],
        [("X-Remote-User", "system:admin")],
        [("X-Remote-User", "alice"), ("X-Remote-Group", "system:masters")],
        [("X-Remote-User", "alice"), ("X-Remote-Group", "ml"), ("X-Remote-Group", "System:masters")],
        [("X-Remote-User", "alice"), *(("X-Remote-Group", f"g{number}") for number in range(200))],
    ],
)
async def test_a_request_without_one_valid_user_is_rejected(proxied: Proxied, headers: list[tuple[str, str]]) -> None:
    async with httpx.AsyncClient(base_url=proxied.served.proxy, verify=proxied.context) as client:
        assert (await client.get("/jobs", headers=headers)).status_code in (400, 401)
    assert not proxied.served.rights.seen


async def test_the_group_of_everyone_may_be_named(proxied: Proxied) -> None:
    async with proxied.user("alice", "system:authenticated") as alice:
        assert "/vision/wide" in (await alice.get("/jobs")).text


async def test_hosts_and_origins_are_checked(proxied: Proxied) -> None:
    async with proxied.user("alice") as client:
        assert (await client.get("/jobs", headers={"host": "evil.example.com"})).status_code == 421
        assert (await client.get("/jobs", headers={"origin": "https://evil.example.com"})).status_code == 403
        assert (await client.post("/queues/plan", data={"settings": "x"})).status_code == 403
        chunked = {"origin": proxied.served.proxy, "transfer-encoding": "chunked", "content-length": "10"}
        assert (await client.post("/queues/plan", content=b"settings=x", headers=chunked)).status_code == 411
        assert (await client.get("/jobs", headers={"host": HOST})).status_code == 200


async def test_viewers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        behind_proxy(tmp_path, sessions=1) as proxied,
        proxied.user("alice") as alice,
        proxied.user("bob") as bob,
    ):
        assert (await alice.get("/jobs")).status_code == 200
        assert (await bob.get("/jobs")).status_code == 503
        monkeypatch.setattr(proxy_guard, "_IDLE_SECONDS", 0.0)
        assert (await bob.get("/jobs")).status_code == 200
        assert "/vision/" not in (await bob.get("/jobs")).text


async def test_views_that_are_opened_together_are_all_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_guard, "_IDLE_SECONDS", 0.0)
    opened: list[str] = []
    closed: list[str] = []
    reader = SharedReader(RecordedSource(platform().observed, "test"), explains=False)

    async def open_reader(viewer: User) -> OpenedReader:
        async def close() -> None:
            await asyncio.sleep(0)
            closed.append(viewer.name)

        opened.append(viewer.name)
        await asyncio.sleep(0)
        resources = contextlib.AsyncExitStack()
        resources.push_async_callback(close)
        return OpenedReader(reader, Starlette(), resources)

    views = proxy_guard.ProxyViews(open_reader, 2)
    for name in "ab":
        assert await views.of(User(name)) is not None
    first, second, other = await asyncio.gather(*(views.of(User(name)) for name in "ccd"))
    assert first is not None
    assert first is second
    assert other is not None
    assert opened == ["a", "b", "c", "d"]
    await views.close_all()
    assert sorted(closed) == opened


@pytest.mark.slow
async def test_a_list_that_does_not_answer_holds_no_viewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_server, "START_SECONDS", 0.5)
    go_on = asyncio.Event()

    async def hanging(_: LiveSource) -> None:
        await go_on.wait()

    async with behind_proxy(tmp_path) as proxied, proxied.user("alice") as alice, proxied.user("bob") as bob:
        with monkeypatch.context() as changed:
            changed.setattr(LiveSource, "start", hanging)
            found = await asyncio.gather(alice.get("/jobs"), bob.get("/jobs"))
            assert [each.status_code for each in found] == [503] * 2
        monkeypatch.setattr(cluster_server, "START_SECONDS", 60.0)
        assert "/vision/wide" in (await alice.get("/jobs")).text


async def test_a_cluster_that_cannot_be_read_is_read_again(proxied: Proxied) -> None:
    async with proxied.user("alice") as alice:
        proxied.served.rights.away = True
        assert (await alice.get("/jobs")).status_code == 503
        proxied.served.rights.away = False
        assert "/vision/wide" in (await alice.get("/jobs")).text
