"""Helpers of the tests that drive a real control plane: run the command line and kubectl as a user would."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

import psutil
import pytest
import yaml

from tests.forked_command import run_forked, starts_alike
from tests.kubectl_get import UnreadError, read
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.kinds import PODS
from trainyard.kube.training_kinds import TRAIN_JOBS
from trainyard.local.cluster.process import MEMORY_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")


def run(
    *command: str | Path, env: Mapping[str, str], timeout: float = 600, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in the project folder and return what it printed."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=timeout,
        input=stdin,
        check=False,
    )


def python(program: str, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python in a process of their own, with further variables."""
    return run(sys.executable, "-c", program, *arguments, env=os.environ | (env or {}))


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder with an identity of the tests."""
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def new_repository(folder: Path) -> None:
    """Commit the files of a folder to the branch ``main`` of a new repository."""
    git(folder, "init", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "first")


def trainyard(*arguments: str, env: Mapping[str, str], timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    if starts_alike(env):
        return run_forked(arguments, env=env, timeout=timeout)
    return run(sys.executable, "-m", "trainyard", *arguments, env=env, timeout=timeout)


def in_process(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, which saves its start; an error with a traceback is raised."""
    from trainyard.cli.app import main

    code: str | int | None = 0
    thresholds = gc.get_threshold()
    with (
        mock.patch.object(sys, "argv", ["trainyard", *arguments]),
        mock.patch.dict(os.environ, env or {}),
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as errors,
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            gc.set_threshold(*thresholds)  # main() raises them
    assert code is None or isinstance(code, int), code
    return subprocess.CompletedProcess(arguments, code or 0, output.getvalue(), errors.getvalue())


def require(result: subprocess.CompletedProcess[str]) -> str:
    """Return the standard output of a command that must have succeeded."""
    assert result.returncode == 0, (
        f"{result.args} exited {result.returncode}\n--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
    )
    return result.stdout


_CONTROLLERS = frozenset(
    {
        *("kube-controller-manager", "kube-apiserver", "trainyard-controller", "trainer"),
        *("vc-scheduler", "vc-controller-manager", "vc-webhook-manager"),
    }
)

PATIENCE = 3
"""How much longer than on an idle machine something may take: several clusters share it."""


def awaited(what: str, probe: Callable[[], T | None], *, timeout: float = 60, lag: float = 0.05) -> T:
    """Return the first answer of a probe that is neither None nor false; fail when none comes in time.

    Parameters
    ----------
    timeout
        Seconds on an idle machine.
    lag
        Share of the wait by which the answer may be late, up to a second: probes cost CPU time, most of them on the
        API server.
    """
    timeout *= PATIENCE
    start = time.monotonic()
    deadline = start + timeout
    while time.monotonic() < deadline:
        began = time.monotonic()
        answer = probe()
        if answer:
            return answer
        # A probe that is a process of its own must not use up the core that the awaited work needs.
        now = time.monotonic()
        time.sleep(min(2.0, max(0.1, 2 * (now - began), min(1.0, lag * (now - start)))))
    raise AssertionError(f"{what}: not within {timeout:g} s")


@contextmanager
def repeated(work: Callable[[], T], *, every: float = 0.0) -> Iterator[list[T]]:
    """Repeat something in a thread until the block ends; the list holds its results so far.

    Parameters
    ----------
    every
        Seconds between the end of one and the start of the next.

    Raises
    ------
    AssertionError
        It raised something, and has not been repeated since.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            while not ended.is_set():
                results.append(work())
                ended.wait(every)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="repeated")
    thread.start()
    try:
        yield results
    except BaseException as error:
        if failures:
            error.add_note(f"What was repeated had failed after {len(results)} results: {failures[0]!r}")
        raise
    finally:
        ended.set()
        thread.join()
    if failures:
        raise AssertionError(f"what was repeated failed after {len(results)} results") from failures[0]


@dataclass(frozen=True)
class LiveCluster:
    """A running cluster of the tests."""

    name: str
    config_file: Path
    env: dict[str, str]

    @property
    def kubeconfig(self) -> Path:
        return Path(self.env["KUBECONFIG"])

    def trainyard(self, *arguments: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        return trainyard(*arguments, env=self.env, timeout=timeout)

    def status(self, *, healthy: bool = False) -> dict[str, Any]:
        """Return what `trainyard cluster status` prints, in this process: a poll would use a second of CPU time.

        Parameters
        ----------
        healthy
            Whether the command must succeed.
        """
        printed = in_process("cluster", "status", "--name", self.name, "-o", "json", env=self.env)
        found: dict[str, Any] = json.loads(require(printed) if healthy else printed.stdout)
        return found

    def policy_servers(self) -> set[int]:
        """Return the pids of the policy servers, one a replica of the controller, also of those that end."""
        return {each["pid"] for each in self.status()["processes"] if re.fullmatch(r"opa(-\d)?", each["name"])} - {None}

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return run("kubectl", *arguments, env=self.env, stdin=stdin, timeout=timeout)

    def get(self, *arguments: str) -> Any:
        """Return what `kubectl get … -o json` prints, None when the object does not exist."""
        with suppress(UnreadError):
            return read(shared_session(self.kubeconfig), *arguments)
        result = self.kubectl("get", *arguments, "-o", "json")
        if result.returncode != 0 and "NotFound" in result.stderr:
            return None
        return json.loads(require(result))

    def apply(self, *objects: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        return self.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([dict(body) for body in objects]))

    def condition(self, job: str, namespace: str, kind: str, *, timeout: float = 90) -> Mapping[str, Any]:
        """Wait for a TrainJob's condition to be true and return it."""
        path = TRAIN_JOBS.path(namespace=namespace, name=job)

        def probe() -> Mapping[str, Any] | None:
            conditions = self._read(path).get("status", {}).get("conditions", [])
            return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)

        return awaited(f"condition {kind} of TrainJob {namespace}/{job}", probe, timeout=timeout)

    def pods(self, job: str, namespace: str) -> list[dict[str, Any]]:
        path = f"{PODS.path(namespace=namespace)}?labelSelector=jobset.sigs.k8s.io/jobset-name={job}"
        items: list[dict[str, Any]] = self._read(path)["items"]
        return items

    def _read(self, path: str) -> Mapping[str, Any]:
        """Read without a process of kubectl; an object that does not exist is empty."""
        response = shared_session(self.kubeconfig).request("GET", path)
        if not response.ok and response.status != 404:
            raise response.error
        return response.body if response.ok else {}


def shared_session(kubeconfig: Path) -> BlockingSession:
    """Return the session with a cluster that all tests of this process share: its connections stay open."""
    return _session(kubeconfig, kubeconfig.stat().st_mtime_ns)


@cache
def _session(kubeconfig: Path, _modified: int) -> BlockingSession:
    return BlockingSession(kubeconfig)


def stack_versions(cluster: LiveCluster, stack: str = "local") -> dict[str, Any]:
    """Return what the labeled objects of a stack were last written by, without the writes of running controllers."""
    from components.registry import cluster_kinds, namespaced_kinds

    groups = {
        (version.rpartition("/")[0], plural)
        for kinds in (cluster_kinds(), namespaced_kinds())
        for (version, _), plural in kinds.items()
    }
    names = ",".join(sorted(f"{plural}.{group}".rstrip(".") for group, plural in groups if group != "kueue.x-k8s.io"))
    found = cluster.get(names, "-A", "-l", f"trainyard.dev/stack={stack}", "--show-managed-fields")["items"]
    return {
        f"{each['kind']}/{metadata.get('namespace', '')}/{metadata['name']}": (
            metadata["uid"],
            [
                entry
                for entry in metadata["managedFields"]
                if entry.get("subresource") != "status" and entry["manager"] not in _CONTROLLERS
            ],
        )
        for each in found
        for metadata in [each["metadata"]]
    }


def stack_file(
    folder: Path, name: str, change: Callable[[dict[str, Any]], None] | None = None, *, stack: str = "local"
) -> Path:
    """Write a copy of a stack's settings whose cluster has a name of its own, after a change.

    Its objects are not checked by the rules at each `up`; set ``trainyard:policies.preview`` for that.
    """
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    document["config"]["trainyard:cluster"]["name"] = name
    document["config"].setdefault("trainyard:policies", {})["preview"] = False
    if change is not None:
        change(document["config"])
    path = folder / f"Pulumi.{stack}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def plain_project(folder: Path, config_file: Path, stack: str) -> Path:
    """Write the project of plain `pulumi` with one stack file; its program is that of the checkout."""
    definition = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    definition["main"] = str(ROOT / "stacks")
    definition["runtime"]["options"]["virtualenv"] = str(ROOT / ".venv")
    definition.pop("stackConfigDir")
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(definition, sort_keys=False))
    shutil.copyfile(config_file, folder / f"Pulumi.{stack}.yaml")
    return folder


_PLENTY = 14 << 30
"""Bytes of memory with which the programs of three clusters may use more of it to save CPU time."""


RARE_COLLECTION: Final = {"GOGC": "800", "GOMEMLIMIT": "1GiB"}
"""Variables of Go programs that run for seconds, as `trainyard up` sets them: garbage is collected rarely."""


def environment(state_home: Path) -> dict[str, str]:
    """Return this process's environment with a state folder of the tests' own; the program cache is shared."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "KUBECONFIG"))}
    if psutil.virtual_memory().total >= _PLENTY:
        inherited = {MEMORY_VARIABLE: "2GiB"} | RARE_COLLECTION | inherited
    return inherited | {"TRAINYARD_STATE_HOME": str(state_home)}


def own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the log records of Trainyard: asyncio logs whenever futures of an earlier test are collected."""
    return [record for record in caplog.records if record.name.startswith("trainyard")]
