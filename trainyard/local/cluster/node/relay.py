"""Connection of the control plane to the network of the nodes; started by its path, standard library only.

The control plane listens on this machine's loopback only, and the nodes have a network without a way out. So one
listener in that network passes connections on to the API server. A proxy on a Unix socket (HTTP CONNECT, the protocol
of the API server's egress selector) opens the connections of the API server to kubelets and webhooks there. A socket
belongs to the network namespace in which it was made: a thread in the other namespace makes these.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import ipaddress
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_BUFFER = 64 * 1024
_HEADER_LIMIT = 16 * 1024
_CONNECT_SECONDS = 10.0


def _enter(namespace: str) -> None:
    """Move this thread into a network namespace."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"{namespace}: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def _listener(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    made.listen(1024)
    made.setblocking(False)
    return made


def _outgoing() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await source.read(_BUFFER):
            target.write(block)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()


async def _join(
    first: tuple[asyncio.StreamReader, asyncio.StreamWriter], second: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    try:
        await asyncio.gather(_copy(first[0], second[1]), _copy(second[0], first[1]))
    finally:
        for _, writer in (first, second):
            writer.close()


class Relay:
    """Both directions.

    Parameters
    ----------
    threads
        Runs functions in the network of the nodes.
    api
        Address of the API server on this machine.
    """

    def __init__(self, threads: ThreadPoolExecutor, api: tuple[str, int]) -> None:
        self._threads = threads
        self._api = api

    async def to_api(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection from the nodes on to the API server."""
        try:
            target = await asyncio.open_connection(*self._api)
        except OSError:
            writer.close()
            return
        await _join((reader, writer), target)

    async def to_nodes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one CONNECT request."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
            target = await self._connect(request)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            with contextlib.suppress(OSError):
                reason = " ".join(str(error).split()) or type(error).__name__
                writer.write(f"HTTP/1.1 502 {reason}\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _join((reader, writer), target)

    async def _connect(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        method, _, rest = request.decode("latin-1").partition(" ")
        host, _, port = rest.split(" ", 1)[0].rpartition(":")
        if method != "CONNECT" or not host:
            raise ValueError("only CONNECT is served")
        # Names are not resolved: that would happen in this machine's network, and send packets into it.
        address = str(ipaddress.IPv4Address(host))
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._threads, _outgoing)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.sock_connect(made, (address, int(port)))
            return await asyncio.open_connection(sock=made)
        except BaseException:
            made.close()
            raise


async def _serve(arguments: argparse.Namespace) -> None:
    threads = ThreadPoolExecutor(max_workers=1, initializer=_enter, initargs=(arguments.namespace,))
    relay = Relay(threads, ("127.0.0.1", arguments.api_port))
    inside = await asyncio.get_running_loop().run_in_executor(threads, _listener, arguments.address, arguments.api_port)
    servers = (
        await asyncio.start_server(relay.to_api, sock=inside),
        await asyncio.start_unix_server(relay.to_nodes, arguments.socket, limit=_HEADER_LIMIT),
    )
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Relay until killed."""
    parser = argparse.ArgumentParser(description="Connect a control plane with the network of its nodes.")
    parser.add_argument("--namespace", required=True, help="file of the network namespace")
    parser.add_argument("--address", required=True, help="address of the API server in it")
    parser.add_argument("--api-port", required=True, type=int, help="port of the API server, in both networks")
    parser.add_argument("--socket", required=True, help="Unix socket of the proxy")
    arguments = parser.parse_args()
    os.umask(0o077)
    Path(arguments.socket).unlink(missing_ok=True)
    asyncio.run(_serve(arguments))


if __name__ == "__main__":
    main()
