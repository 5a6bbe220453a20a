"""Figures of the console at 5,000 jobs and 1,000 nodes: memory, API requests and time of each page.

`python -m tests.console.console_figures` prints them, with `viewers` those of several viewers in the cluster;
docs/console.md has them.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection

import psutil
from aiohttp.test_utils import TestClient, TestServer

from tests.console.recorded_platform import PORT
from tests.console.test_live_source import put
from tests.explain.recorded_clusters import Cluster
from tests.kube.fake_api import FakeApi, serving
from trainyard.insight.console.access_guard import AccessGuard
from trainyard.insight.console.cluster_server import ClusterConsole
from trainyard.insight.console.live_source import LiveSource
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.web_application import Pages, application
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection as Server

JOBS, RACKS, RUNNING = 5_000, 125, 900
PAGES = ("/", "/jobs", "/queues", "/fabric", "/runtimes", f"/jobs/trainjob/vision/job-{JOBS - 1}")
IDLE_SECONDS = 30
VIEWERS = (1, 5)


def cluster() -> Cluster:
    """Return the cluster: a seventh of the jobs run, the others wait in one queue."""
    made = Cluster(racks=RACKS, nodes_per_rack=8)
    names = made.names
    for number in range(JOBS):
        runs = number < RUNNING
        namespace = f"tenant-{number % 20}" if runs else "vision"
        made.job(f"job-{number}", namespace, pods=2, gpus=4, nodes=[names[number]] * 2 if runs else ())
    return made


def api_server(parent: Connection) -> None:
    """Serve the cluster in a process of its own."""

    async def run() -> None:
        async with serving(FakeApi()) as api:
            for body in cluster().bodies:
                put(api, body)
            api.lose_events()
            parent.send(api.port)
            await asyncio.to_thread(parent.recv)

    asyncio.run(run())


async def measure(port: int) -> None:
    """Print the figures."""
    requests = 0

    def observe(_method: str, _resource: str, _status: int) -> None:
        nonlocal requests
        requests += 1

    process = psutil.Process()
    before = process.memory_info().rss
    async with Client(Server(f"http://127.0.0.1:{port}"), observe=observe) as client:
        reader = SharedReader(LiveSource(client, "measure", requests=lambda: requests))
        began = time.monotonic()
        await reader.start()
        print(
            f"start: {time.monotonic() - began:.1f} s, {requests} requests, {len(reader.view.observed.objects)} objects"
        )
        guard = AccessGuard(Pages(reader), PORT)
        async with TestClient(TestServer(application(guard.middleware), port=PORT)) as pages:
            await pages.get("/", params={"token": guard.new_token()})
            for page in PAGES:
                seconds = []
                for _ in range(5):
                    began = time.monotonic()
                    async with pages.get(page) as answer:
                        answer.raise_for_status()
                        await answer.read()
                    seconds.append(time.monotonic() - began)
                print(f"{page}: first {seconds[0] * 1000:.0f} ms, then {min(seconds) * 1000:.0f} ms")
        used = requests
        await asyncio.sleep(IDLE_SECONDS)
        print(f"idle: {(requests - used) * 60 / IDLE_SECONDS:.0f} requests a minute")
        print(f"memory: {(process.memory_info().rss - before) / 1e6:.0f} MB")
        await reader.close()


async def measure_viewers(port: int) -> None:
    """Print the figures of several viewers, of whom each may see everything and has no page open."""
    process = psutil.Process()
    before = process.memory_info().rss
    console = ClusterConsole(connection=Server(f"http://127.0.0.1:{port}"), name="measure", namespaces=("vision",))

    def sent() -> int:
        return sum(each.source.requests for each in console.readers)

    async with contextlib.AsyncExitStack() as stack:
        for number in range(1, VIEWERS[-1] + 1):
            opened = await console.reader(f"user-{number}", f"token-{number}")
            stack.push_async_callback(opened.resources.aclose)
            if number not in VIEWERS:
                continue
            await asyncio.sleep(5)
            begun = sent()
            await asyncio.sleep(IDLE_SECONDS)
            memory, rate = (process.memory_info().rss - before) / 1e6, (sent() - begun) * 60 / IDLE_SECONDS
            print(f"{number} viewers: {memory:.0f} MB, {rate:.0f} requests a minute, {begun} until then")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=api_server, args=(theirs,))
    child.start()
    try:
        port = ours.recv()
        asyncio.run((measure_viewers if sys.argv[1:] == ["viewers"] else measure)(port))
    finally:
        ours.send(None)
        child.join(30)
