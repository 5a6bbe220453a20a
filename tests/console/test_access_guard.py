"""Access to a local console: token, cookie, Host header, methods, and the headers of every answer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.console.recorded_platform import ADDRESS, PORT, Viewer, console, guarded, platform, signed_in, token_of
from trainyard.insight.console import access_guard
from trainyard.insight.console.access_guard import TOKEN_SECONDS
from trainyard.insight.console.page_headers import CONTENT_SECURITY_POLICY
from trainyard.insight.console.recorded_source import RecordedSource

PAGES = ("/", "/queues", "/fabric", "/jobs", "/jobs/trainjob/language/waits", "/runtimes", "/scenarios")


@pytest.fixture(scope="module")
def client() -> Iterator[Viewer]:
    with console(platform()) as client:
        yield client


@pytest.fixture(autouse=True)
def without_cookies(client: Viewer) -> None:
    client.cookies.clear()


def cookie_of(client: Viewer) -> str:
    """Return the cookie of a browser that has opened the address; the client does not keep it."""
    cookie = signed_in(client).headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    return cookie


@pytest.mark.parametrize("path", [*PAGES, "/events", "/assets/htmx.min.js", "/nothing"])
def test_without_the_token_nothing_is_shown(client: Viewer, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 401
    assert "vision" not in answer.text


@pytest.mark.parametrize("change", ["{0:.0}", "x", "{0}x", "é", "x{0}"])
def test_another_token_is_rejected(client: Viewer, change: str) -> None:
    token = change.format(token_of(client))
    answer = client.get("/", params={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    cookie = {"cookie": f"trainyard-console-{PORT}={token}".encode("latin-1").decode("latin-1")}
    if token.isascii():
        assert client.get("/", headers=cookie).status_code == 401


def test_the_first_request_moves_the_token_to_a_cookie(client: Viewer) -> None:
    token = token_of(client)
    answer = client.get(f"/jobs?words=a+b&token={token}&state=Waiting")
    assert answer.status_code == 200
    assert 'content="0; url=/jobs?words=a+b&amp;state=Waiting"' in answer.text
    assert token not in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"trainyard-console-{PORT}=")
    assert token not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/jobs").status_code == 200


def test_a_token_is_valid_once_and_for_ten_minutes(client: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    used, kept, late, asked = (token_of(client) for _ in range(4))
    assert client.head(f"/?token={asked}").status_code == 401
    assert client.get(f"/?token={asked}").status_code == 200
    assert client.get(f"/?token={used}").status_code == 200
    assert client.get(f"/?token={used}").status_code == 200  # by the browser that has the cookie
    client.cookies.clear()
    answer = client.get(f"/?token={used}")
    assert answer.status_code == 401
    assert "valid once, for ten minutes" in answer.text
    begun = time.monotonic()
    monkeypatch.setattr(access_guard.time, "monotonic", lambda: begun + TOKEN_SECONDS - 10)
    assert client.get(f"/?token={kept}").status_code == 200
    client.cookies.clear()
    monkeypatch.setattr(access_guard.time, "monotonic", lambda: begun + TOKEN_SECONDS + 1)
    assert client.get(f"/?token={late}").status_code == 401
    assert client.get("/", headers={"cookie": f"trainyard-console-{PORT}={late}"}).status_code == 401


OTHERS = [
    'foo={"a": 1}',
    "bad name=x",
    "n[0]=1",
    "a@b=1",
    "flag",
    "k=a,b c",
    "/path=1",
    'theme="dark',
    "j=[1,2]",
    "=",
    "",
]
"""Cookies of other programs on 127.0.0.1."""


@pytest.mark.parametrize("other", OTHERS)
def test_cookies_of_other_programs_do_not_matter(client: Viewer, other: str) -> None:
    own = cookie_of(client)
    for cookie in (f"{other}; {own}", f"{own}; {other}".strip(), f"{other};{own};{other}"):
        assert client.get("/", headers={"cookie": cookie}).status_code == 200


def test_the_default_port_of_browsers_is_left_out() -> None:
    with guarded(RecordedSource(platform().observed, "cluster.json"), port=80) as client:
        assert signed_in(client).status_code == 200
        assert client.get("/", headers={"origin": "http://127.0.0.1"}).status_code == 200
        assert client.get("/", headers={"host": "127.0.0.1:80"}).status_code == 200
        assert client.get("/", headers={"host": "127.0.0.1:81"}).status_code == 421


@pytest.mark.parametrize(
    "path", ["//example.com/", "/\\example.com/", "///example.com", '/"><script>alert(1)</script>']
)
def test_the_next_address_is_one_of_this_console(client: Viewer, path: str) -> None:
    text = client.get(f"{ADDRESS}{path}?token={token_of(client)}&a=%22%3E%3Cscript%3E").text
    found = re.search(r'content="0; url=([^"]*)"', text)
    assert found is not None
    assert re.match(r"/[^/\\]", found[1])
    assert "<script" not in text


@pytest.mark.parametrize(
    "host", ["example.com", f"example.com:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1:{PORT}.example.com", ""]
)
def test_a_foreign_host_header_is_rejected(client: Viewer, host: str) -> None:
    signed_in(client)
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert client.get(f"/?token={token_of(client)}", headers={"host": host}).status_code == 421


def test_the_names_of_this_machine_are_accepted(client: Viewer) -> None:
    cookie = {"cookie": cookie_of(client)}
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
        assert client.get("/", headers={"host": host, **cookie}).status_code == 200


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"])
def test_a_request_of_another_page_is_rejected(client: Viewer, origin: str) -> None:
    signed_in(client)
    assert client.post("/queues/plan", data={"settings": ""}, headers={"origin": origin}).status_code == 403
    assert client.get("/", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_methods_that_write_are_rejected(client: Viewer, method: str) -> None:
    signed_in(client)
    assert client.request(method, "/jobs").status_code == 405


def test_no_page_but_the_plan_takes_a_body(client: Viewer) -> None:
    signed_in(client)
    for path in PAGES:
        assert client.post(path).status_code == 405


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/assets/console.css", "/scenarios/none/drawing"])
def test_every_answer_confines_the_page(client: Viewer, path: str) -> None:
    for answer in (client.get(path), signed_in(client), client.get(path)):
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


def test_the_policy_permits_no_other_source_and_no_inline_code() -> None:
    directives = dict(each.strip().split(" ", 1) for each in CONTENT_SECURITY_POLICY.split(";"))
    assert directives.pop("default-src") == directives.pop("base-uri") == directives.pop("frame-ancestors") == "'none'"
    assert set(directives.values()) == {"'self'"}
