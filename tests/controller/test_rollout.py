"""A roll-out of the controller: real processes behind a service that balances connections, under constant creates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.controller.harness import CLUSTER_RUNTIMES, runtime, train_job
from tests.kube.fake_api import FakeApi, eventually
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration, LeaderElection
from trainyard.controller.webhooks import MUTATE_TRAIN_JOB

DELAY = 1.0
LAG = 0.3
"""Seconds until the service learns that a replica is no longer ready; less than the delay."""


class Replica:
    def __init__(self, process: Process, log: Path) -> None:
        self.process, self.log = process, log
        self.ready_until = 0.0

    @property
    def ports(self) -> dict[str, int]:
        lines = [line.split(" listens on 127.0.0.1:") for line in self.log.read_text().splitlines()]
        return {line[0].rpartition(" ")[2]: int(line[1]) for line in lines if len(line) == 2}

    @property
    def ready(self) -> bool:
        return time.monotonic() < self.ready_until


class Service:
    """Replicas behind one port: a connection goes to a ready one and stays with it."""

    def __init__(self) -> None:
        self.replicas: list[Replica] = []
        self.port = 0
        self._next = 0

    async def probe(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                for replica in self.replicas:
                    with contextlib.suppress(aiohttp.ClientError, KeyError):
                        url = f"http://127.0.0.1:{replica.ports['health']}/readyz"
                        async with session.get(url) as response:
                            if response.status == 200:
                                replica.ready_until = time.monotonic() + LAG
                await asyncio.sleep(0.05)

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [replica for replica in self.replicas if replica.ready]
        self._next += 1
        port = ready[self._next % len(ready)].ports["webhook"]
        backend = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copy(reader, backend[1]), _copy(backend[0], writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def service() -> AsyncIterator[Service]:
    balancer = Service()
    server = await asyncio.start_server(balancer.connect, "127.0.0.1", 0)
    balancer.port = server.sockets[0].getsockname()[1]
    probing = asyncio.create_task(balancer.probe())
    try:
        yield balancer
    finally:
        probing.cancel()
        server.close()
        for replica in balancer.replicas:
            if replica.process.returncode is None:
                replica.process.kill()
                await replica.process.wait()


async def start(balancer: Service, folder: Path) -> Replica:
    log = folder / f"{len(balancer.replicas)}.log"
    flags = ["--host=127.0.0.1", *(f"--{name}-port=0" for name in ("webhook", "health", "metrics"))]
    files = [f"--kubeconfig={folder / 'kubeconfig'}", f"--config={folder / 'config.yaml'}"]
    with log.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "trainyard", "controller", "run", *files, *flags,
            stdin=DEVNULL, stdout=DEVNULL, stderr=stream, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
    replica = Replica(process, log)
    balancer.replicas.append(replica)
    await eventually(lambda: replica.ready, within=60)
    return replica


def write_files(folder: Path, api: FakeApi) -> None:
    certificate = Certificate(
        secret=SERVING_SECRET, namespace="kubeflow-system", dns_names=("localhost",), ip_addresses=("127.0.0.1",)
    )
    election = LeaderElection(lease_seconds=15, renew_seconds=10, retry_seconds=0.2)
    settings = Configuration(
        certificates=(certificate,), leader_election=election, shutdown_delay_seconds=DELAY, workers=2
    )
    (folder / "config.yaml").write_text(settings.as_yaml())
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}]
    users: list[dict[str, Any]] = [{"name": "u", "user": {}}]
    kubeconfig = {"current-context": "c", "contexts": [context], "clusters": clusters, "users": users}
    (folder / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **kubeconfig}))


@pytest.mark.slow
async def test_a_roll_out_loses_no_request_and_leadership_changes_hands_at_once(api: FakeApi, tmp_path: Path) -> None:
    api.put("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}})
    api.put(CLUSTER_RUNTIMES, runtime())
    write_files(tmp_path, api)
    request = {"uid": "1", "namespace": "team", "name": "job", "kind": {"kind": "TrainJob"}, "object": train_job()}
    review = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    answers: list[bool] = []
    done = asyncio.Event()

    async def create(session: aiohttp.ClientSession, url: str) -> None:
        while not done.is_set():
            async with session.post(url, data=review, ssl=False) as response:
                answers.append((await response.json())["response"]["allowed"])
            await asyncio.sleep(0.05)

    async with service() as balancer, aiohttp.ClientSession() as session:
        old = await start(balancer, tmp_path)
        url = f"https://127.0.0.1:{balancer.port}{MUTATE_TRAIN_JOB}"
        creating = [asyncio.create_task(create(session, url)) for _ in range(3)]
        new = await start(balancer, tmp_path)
        holder = api.of("leases")[0]["spec"]["holderIdentity"]
        old.process.send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        await eventually(lambda: api.of("leases")[0]["spec"]["holderIdentity"] not in ("", holder))
        assert old.process.returncode is None, "leadership waits for the last request"
        assert await asyncio.wait_for(old.process.wait(), 10) == 0
        assert time.monotonic() - stopped >= DELAY
        seen = len(answers)
        await eventually(lambda: len(answers) > seen + 10)
        done.set()
        await asyncio.gather(*creating)
        assert all(answers)
        assert new.process.returncode is None
        new.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(new.process.wait(), 10) == 0
    assert "Traceback" not in old.log.read_text() + new.log.read_text()
