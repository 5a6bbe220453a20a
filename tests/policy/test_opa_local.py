"""The client of a server on the own socket: whatever goes wrong is a refusal."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import orjson
import pytest

from trainyard.policy.engines.opa.socket_client import SocketClient
from trainyard.policy.review import DecisionUnavailableError

WHOLE: dict[str, Any] = {
    "allowed": True, "violations": [], "warnings": [], "audits": [], "undecided": [], "exempted": [],
}  # fmt: skip
PROVENANCE = {"bundles": {"b": {"revision": "r1"}}}
QUESTION: dict[str, Any] = {"requests": [{}, {}]}


@contextmanager
def answering(path: Path, answer: Any) -> Iterator[list[str]]:
    """Run a server that gives this answer: JSON, bytes, a status, or the seconds it takes."""
    asked: list[str] = []
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            assert orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"] == QUESTION
            if isinstance(answer, float):
                done.wait(answer)
                return
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else orjson.dumps(answer))

        def log_message(self, *_arguments: object) -> None:
            return None

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield asked
        finally:
            done.set()
            server.shutdown()
            thread.join()


def ask(path: Path, revision: str | None = None, timeout: float = 5.0) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        async with SocketClient(path, revision, timeout=timeout) as client:
            return await client.decide_all(QUESTION)

    return asyncio.run(run())


def test_whole_decisions_are_returned(tmp_path: Path) -> None:
    with answering(tmp_path / "s", {"result": [WHOLE, WHOLE], "provenance": PROVENANCE}) as asked:
        assert ask(tmp_path / "s", "r1") == [WHOLE, WHOLE]
    assert asked == ["/v1/data/trainyard/decisions?strict-builtin-errors=true&provenance=true"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"result": [WHOLE]}, "a wrong number of decisions"),
        ({"result": {}}, "a wrong number of decisions"),
        ({"result": [WHOLE, {**WHOLE, "allowed": "yes"}]}, "malformed decision"),
        ({}, "has no such rule"),
        ([], "has no such rule"),
        (500, "returned status 500"),
        (b"<html>", "unexpected"),
        (0.2, "timed out"),
    ],
)
def test_anything_else_is_a_refusal(tmp_path: Path, answer: Any, reason: str) -> None:
    with answering(tmp_path / "s", answer), pytest.raises(DecisionUnavailableError, match=reason):
        ask(tmp_path / "s", timeout=0.1 if isinstance(answer, float) else 5.0)


def test_other_rules_are_a_refusal(tmp_path: Path) -> None:
    with (
        answering(tmp_path / "s", {"result": [WHOLE, WHOLE], "provenance": PROVENANCE}),
        pytest.raises(DecisionUnavailableError, match="another revision of the rules"),
    ):
        ask(tmp_path / "s", "r2")


def test_a_server_that_is_away_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(DecisionUnavailableError, match="FileNotFoundError"):
        ask(tmp_path / "s")
