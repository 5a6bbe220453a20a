"""The relay between the control plane and the nodes, and probes through it; both networks are this machine's here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from trainyard.local.cluster.health_probes import Probe, probe
from trainyard.local.cluster.node.relay import Relay


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()
        self.wfile.write(b"state")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    """An HTTP server."""
    with HTTPServer(("127.0.0.1", 0), _Healthy) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served.server_port
        served.shutdown()
        thread.join()


def relay(port: int) -> Relay:
    return Relay(ThreadPoolExecutor(max_workers=1), ("127.0.0.1", port))


async def through(server: int, tmp_path: Path, target: Probe) -> str | None:
    listening = await asyncio.start_unix_server(relay(server).to_nodes, tmp_path / "s")
    async with listening:
        return await asyncio.to_thread(probe, target)


async def test_a_probe_reaches_its_endpoint_through_the_proxy(server: int, tmp_path: Path) -> None:
    proxy = tmp_path / "s"
    assert await through(server, tmp_path, Probe(server, "/healthz", proxy=proxy)) is None
    answer = await through(server, tmp_path, Probe(server, "/other", proxy=proxy))
    assert answer == "answers 503 on /other: state"


async def test_a_connection_that_fails_is_reported_with_its_reason(server: int, tmp_path: Path) -> None:
    answer = await through(server, tmp_path, Probe(1, "/healthz", proxy=tmp_path / "s"))
    assert answer is not None
    assert "does not answer on port 1: 502" in answer
    assert "refused" in answer or "Connect call failed" in answer


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"CONNECT nothing HTTP/1.1", b"CONNECT :x HTTP/1.1"])
async def test_only_requests_to_connect_are_served(server: int, tmp_path: Path, request_line: bytes) -> None:
    async with await asyncio.start_unix_server(relay(server).to_nodes, tmp_path / "s"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(request_line + b"\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 502 ")
        writer.close()


async def test_names_are_not_resolved_in_the_network_of_this_machine(server: int, tmp_path: Path) -> None:
    async with await asyncio.start_unix_server(relay(server).to_nodes, tmp_path / "s"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(f"CONNECT localhost:{server} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 502 ")
        writer.close()


async def test_nodes_reach_the_api_server(server: int) -> None:
    listening = await asyncio.start_server(relay(server).to_api, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        assert await asyncio.to_thread(probe, Probe(port, "/healthz")) is None


async def test_a_node_is_refused_while_the_api_server_does_not_listen() -> None:
    listening = await asyncio.start_server(relay(1).to_api, "127.0.0.1", 0)
    async with listening:
        reader, _ = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
        assert await reader.read() == b""
