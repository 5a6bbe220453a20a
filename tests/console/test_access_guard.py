"""Access to a local console: token, cookie, Host header, methods, and the headers of every answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.console.recorded_platform import ADDRESS, PORT, TOKEN, console, platform, signed_in
from trainyard.console.access_guard import CONTENT_SECURITY_POLICY

PAGES = ("/", "/queues", "/fabric", "/jobs", "/jobs/trainjob/language/waits", "/runtimes", "/scenarios")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with console(platform()) as client:
        yield client


@pytest.fixture(autouse=True)
def without_cookies(client: TestClient) -> None:
    client.cookies.clear()


@pytest.mark.parametrize("path", [*PAGES, "/events", "/assets/htmx.min.js", "/nothing"])
def test_without_the_token_nothing_is_shown(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 401
    assert "vision" not in answer.text


@pytest.mark.parametrize("token", ["", "x", TOKEN + "x", "é", TOKEN.upper()])
def test_another_token_is_rejected(client: TestClient, token: str) -> None:
    answer = client.get("/", params={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    cookie = {"cookie": f"trainyard-console-{PORT}={token}".encode("latin-1").decode("latin-1")}
    if token.isascii():
        assert client.get("/", headers=cookie).status_code == 401


def test_the_first_request_moves_the_token_to_a_cookie(client: TestClient) -> None:
    answer = client.get(f"/jobs?words=a+b&token={TOKEN}&state=Waiting")
    assert answer.status_code == 200
    assert 'content="0; url=/jobs?words=a+b&amp;state=Waiting"' in answer.text
    assert TOKEN not in answer.text
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"trainyard-console-{PORT}={TOKEN};")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/jobs").status_code == 200


@pytest.mark.parametrize(
    "path", ["//example.com/", "/\\example.com/", "///example.com", '/"><script>alert(1)</script>']
)
def test_the_next_address_is_one_of_this_console(client: TestClient, path: str) -> None:
    text = client.get(f"{ADDRESS}{path}?token={TOKEN}&a=%22%3E%3Cscript%3E").text
    found = re.search(r'content="0; url=([^"]*)"', text)
    assert found is not None
    assert re.match(r"/[^/\\]", found[1])
    assert "<script" not in text


@pytest.mark.parametrize(
    "host", ["example.com", f"example.com:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1:{PORT}.example.com", ""]
)
def test_a_foreign_host_header_is_rejected(client: TestClient, host: str) -> None:
    signed_in(client)
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert client.get(f"/?token={TOKEN}", headers={"host": host}).status_code == 421


def test_the_names_of_this_machine_are_accepted(client: TestClient) -> None:
    cookie = {"cookie": f"trainyard-console-{PORT}={TOKEN}"}
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
        assert client.get("/", headers={"host": host, **cookie}).status_code == 200


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"])
def test_a_request_of_another_page_is_rejected(client: TestClient, origin: str) -> None:
    signed_in(client)
    assert client.post("/queues/plan", data={"settings": ""}, headers={"origin": origin}).status_code == 403
    assert client.get("/", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_methods_that_write_are_rejected(client: TestClient, method: str) -> None:
    signed_in(client)
    assert client.request(method, "/jobs").status_code == 405


def test_no_page_but_the_plan_takes_a_body(client: TestClient) -> None:
    signed_in(client)
    for path in PAGES:
        assert client.post(path).status_code == 405


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/assets/console.css", "/scenarios/none/drawing"])
def test_every_answer_confines_the_page(client: TestClient, path: str) -> None:
    for answer in (client.get(path), signed_in(client), client.get(path)):
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers


def test_the_policy_permits_no_other_source_and_no_inline_code() -> None:
    directives = dict(each.strip().split(" ", 1) for each in CONTENT_SECURITY_POLICY.split(";"))
    assert directives.pop("default-src") == directives.pop("base-uri") == directives.pop("frame-ancestors") == "'none'"
    assert set(directives.values()) == {"'self'"}
