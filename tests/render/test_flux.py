"""Flux: scripts, configuration, key and mounts; the command arrives word by word."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.render.builders import (
    container,
    environment,
    node,
    only,
    pods,
    runtime,
    train_job,
    trainer,
    verdict,
)
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered

GPU = "nvidia.com/gpu"


def flux(*jobs: Any, policy: Any = None, **spec: Any) -> Any:
    return runtime(*(jobs or (trainer(),)), mlPolicy={"flux": policy or {}, **spec.pop("nodes", {})}, **spec)


def rendered(job: Any, of: Any, **context: Any) -> dict[tuple[str, str], Any]:
    answer = render(job, of, RenderContext(**context))
    assert isinstance(answer, Rendered), answer
    return {(body["kind"], body["metadata"]["name"]): body for body in answer.objects}


def scripts(job: Any, of: Any) -> dict[str, str]:
    found: dict[str, str] = rendered(job, of)["ConfigMap", "job-flux-entrypoint"]["data"]
    return found


def given(script: str, name: str) -> str:
    return next(line for line in script.splitlines() if line.startswith(f"{name}="))[len(name) + 1 :]


def test_pods_get_flux_its_configuration_and_its_key() -> None:
    pod = pods(train_job(), flux())["node"]["spec"]
    assert pod["volumes"] == [
        {"name": "spack-install", "emptyDir": {}},
        {"name": "flux-install", "emptyDir": {}},
        {"name": "flux-entrypoint", "configMap": {"name": "job-flux-entrypoint", "defaultMode": 0o755}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        {"name": "flux-curve", "secret": {"secretName": "job-flux-curve", "defaultMode": 0o400}},
    ]
    assert pod["initContainers"] == [
        {
            "name": "flux-installer",
            "image": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
            "command": ["/bin/bash", "/etc/flux-config/init.sh"],
            "volumeMounts": [
                {"name": "flux-install", "mountPath": "/mnt/flux"},
                {"name": "flux-entrypoint", "mountPath": "/etc/flux-config", "readOnly": True},
            ],
        }
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "flux-install", "mountPath": "/mnt/flux"},
        {"name": "spack-install", "mountPath": "/opt/software"},
        {"name": "flux-entrypoint", "mountPath": "/etc/flux-config", "readOnly": True},
        {"name": "flux-curve", "mountPath": "/curve", "readOnly": True},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]


@pytest.mark.parametrize(
    ("asked", "own", "words"),
    [
        ({}, {}, None),
        ({"command": ["lmp"], "args": ["-in", "two words"]}, {}, ["lmp", "-in", "two words"]),
        ({}, {"command": ["lmp"], "args": ["-h"]}, ["lmp", "-h"]),
        ({"args": ["-in"]}, {"command": ["lmp"], "args": ["-h"]}, ["lmp", "-in"]),
        ({"command": ["lmp -in in.reaxff"]}, {}, ["lmp", "-in", "in.reaxff"]),
        ({"command": [" lmp  -v"], "args": ["a b"]}, {}, ["lmp", "-v", "a b"]),
        ({}, {"command": ["lmp -h"]}, ["lmp", "-h"]),
        ({"args": ["echo $HOME", "b c"]}, {}, ["echo", "$HOME", "b c"]),
        ({"command": [" "]}, {}, None),
    ],
)
def test_the_entrypoint_gets_the_command(asked: Any, own: Any, words: Any) -> None:
    found = node(train_job(trainer=asked), flux(trainer(containers=[container(**own)])))
    assert found["command"] == ["/bin/bash", "/etc/flux-config/entrypoint.sh"]
    assert found.get("args") == words


@pytest.mark.parametrize(
    ("job", "policy", "resources", "options"),
    [
        ({}, {}, "--cores=0", "-N 1 -n 1"),
        ({"trainer": {"numNodes": 4}}, {}, "--cores=0", "-N 4 -n 4"),
        ({"trainer": {"numNodes": 2}}, {"numProcPerNode": 3}, "--cores=0-2", "-N 2 -n 6"),
        ({"trainer": {"numNodes": 2, "numProcPerNode": 4}}, {"numProcPerNode": 3}, "--cores=0-3", "-N 2 -n 8"),
        ({"trainer": {"resourcesPerNode": {"limits": {GPU: 1}}}}, {}, "--cores=0 --gpus=0", "-N 1 -n 1 -g 1"),
        (
            {"trainer": {"numProcPerNode": 4, "resourcesPerNode": {"limits": {GPU: 8}}}},
            {},
            "--cores=0-3 --gpus=0-7",
            "-N 1 -n 4 -g 2",
        ),
        (
            {"trainer": {"numProcPerNode": 4, "resourcesPerNode": {"limits": {GPU: 2}}}},
            {},
            "--cores=0-3 --gpus=0-1",
            "-N 1 -n 4 -o gpu-affinity=off",
        ),
    ],
)
def test_resources_of_a_node_and_share_of_the_command(job: Any, policy: Any, resources: str, options: str) -> None:
    script = scripts(train_job(**job), flux(policy=policy))["entrypoint.sh"]
    assert given(script, "resources") == f"({resources})"
    assert given(script, "options") == f"({options})"


def test_a_command_line_in_one_element_is_no_warning_because_it_is_split() -> None:
    job = train_job(trainer={"numNodes": 2, "command": ["lmp -in in.reaxff"]})
    assert not verdict(job, flux()).warnings


def test_the_number_of_nodes_of_the_runtime_counts_without_a_trainer() -> None:
    script = scripts(train_job(), flux(nodes={"numNodes": 3}))["entrypoint.sh"]
    assert given(script, "hosts") == "'job-node-0-[0-2]'"
    assert given(script, "lead") == "job-node-0-0"


def test_brokers_find_each_other_under_the_jobs_own_names() -> None:
    body = trainer()
    body["name"] = "hpc"
    of = flux(body, jobset={"network": {"subdomain": "net"}})
    job = train_job(trainer={"env": [{"name": "FLUX_NETWORK_DEVICE", "value": 'ib"0'}]})
    config = tomllib.loads(scripts(job, of)["broker.toml"])
    assert config["bootstrap"] == {
        "curve_cert": "/mnt/flux/config/etc/curve/curve.cert",
        "default_port": 8050,
        "default_bind": 'tcp://ib"0:%p',
        "default_connect": "tcp://%h.net:%p",
        "hosts": [{"host": "job-hpc-0-[0]"}],
    }
    assert config["sched-fluxion-qmanager"] == {"queue-policy": "fcfs"}


def test_settings_come_from_the_variables_and_the_trainjobs_win() -> None:
    own = [{"name": "FLUX_VIEW_IMAGE", "value": "runtime"}, {"name": "FLUX_QUEUE_POLICY", "value": "easy"}]
    of = flux(trainer(containers=[container(env=own)]))
    job = train_job(trainer={"env": [{"name": "FLUX_VIEW_IMAGE", "value": "mine"}]})
    pod = pods(job, of)["node"]["spec"]
    assert pod["initContainers"][0]["image"] == "mine"
    assert environment(pod["containers"][0])["FLUX_VIEW_IMAGE"] == "mine"
    config = tomllib.loads(scripts(job, of)["broker.toml"])
    assert config["sched-fluxion-qmanager"] == {"queue-policy": "easy"}


@pytest.mark.parametrize(
    ("keys", "value"), [(None, "<curve.cert: generated once by the controller>"), ({"curve.cert": "key"}, "key")]
)
def test_the_key_is_given_or_a_placeholder(keys: Any, value: str) -> None:
    secret = rendered(train_job(uid="1"), flux(), keys=keys)["Secret", "job-flux-curve"]
    assert secret["stringData"] == {"curve.cert": value}
    assert (secret["type"], secret["immutable"]) == ("Opaque", True)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "1"


@pytest.mark.parametrize("asked", [0, -1])
def test_processes_that_cannot_be(asked: int) -> None:
    finding = only(verdict(train_job(trainer={"numProcPerNode": asked}), flux()).errors)
    assert finding.path == "spec.trainer.numProcPerNode"
    assert "must be greater than or equal to 1 for Flux TrainJob" in finding.message


def test_the_name_of_the_init_container_is_reserved() -> None:
    of = flux(trainer(pod={"initContainers": [container("flux-installer")]}))
    finding = only(verdict(train_job(), of).errors)
    assert (finding.path, finding.message) == (
        "spec.trainer.initContainers",
        "InitContainer 'flux-installer' is reserved",
    )


def test_gpus_that_cannot_be_divided_are_a_warning() -> None:
    asked = {"numProcPerNode": 3, "resourcesPerNode": {"limits": {GPU: 4}}}
    assert only(verdict(train_job(trainer=asked), flux()).warnings).path == "spec.trainer.numProcPerNode"


class Sandbox:
    """The file system of a pod under one folder, with programs that write down how they are called."""

    def __init__(self, root: Path, script: str, host: str, *, status: int = 0) -> None:
        self.root = root
        places = ("/mnt/flux", "/opt/software", "/opt/view", "/etc/flux-config", "/curve")
        for place in places:
            (root / place[1:]).mkdir(parents=True)
        self.script = re.sub(rf"(?<!\w)({'|'.join(places)})\b", rf"{root}\1", script)
        (root / "curve/curve.cert").write_text("key")
        (root / "opt/view/bin").mkdir()
        (root / "opt/software/tool").write_text("tool")
        self.program(
            "mnt/flux/view/bin/flux", f'printf "%s\\n" flux "$@" >> {root}/calls\n[ "$1" = R ] || exit {status}'
        )
        self.program("bin/hostname", f"echo {host}")
        (root / "mnt/flux/view/lib/python3.11/site-packages").mkdir(parents=True)
        self.program("mnt/flux/view/bin/python3.11", "true")
        (root / "mnt/flux/software").mkdir()
        (root / "mnt/flux/software/library").write_text("library")

    def program(self, place: str, body: str) -> None:
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def run(self, *words: str) -> int:
        search = f"{self.root}/bin:{os.environ['PATH']}"
        command = ["/bin/bash", "-c", self.script, "entrypoint.sh", *words]
        return subprocess.run(command, env={"PATH": search}, check=False, timeout=20, capture_output=True).returncode

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()


@pytest.fixture
def entrypoint() -> str:
    return scripts(train_job(trainer={"numNodes": 2}), flux())["entrypoint.sh"]


def test_the_first_node_runs_the_command_and_ends_with_its_status(tmp_path: Path, entrypoint: str) -> None:
    sandbox = Sandbox(tmp_path, entrypoint, "job-node-0-0", status=7)
    assert sandbox.run("lmp", "two words", "$HOME") == 7
    calls = sandbox.calls()
    assert calls[:6] == ["flux", "R", "encode", "--hosts=job-node-0-[0-1]", "--cores=0", "flux"]
    assert calls[6] == "start"
    assert calls[-2] == "bash"
    job = Path(calls[-1]).read_text()
    words = subprocess.run(
        ["/bin/bash", "-c", job.replace("exec ", "printf '%s\\n' ", 1)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert words == ["flux", "run", "-N", "2", "-n", "2", "lmp", "two words", "$HOME"]
    key = tmp_path / "mnt/flux/config/etc/curve/curve.cert"
    assert (key.read_text(), stat.S_IMODE(key.stat().st_mode)) == ("key", 0o600)
    assert (tmp_path / "opt/software/library").read_text() == "library"
    assert (tmp_path / "mnt/flux/view/bin/python3").resolve().name == "python3.11"


def test_without_a_command_the_first_node_stays_up(tmp_path: Path, entrypoint: str) -> None:
    sandbox = Sandbox(tmp_path, entrypoint, "job-node-0-0")
    assert sandbox.run() == 0
    assert Path(sandbox.calls()[-1]).read_text() == "exec sleep infinity\n"


def test_the_other_nodes_serve_until_flux_has_ended(tmp_path: Path, entrypoint: str) -> None:
    sandbox = Sandbox(tmp_path, entrypoint, "job-node-0-1")
    assert sandbox.run("lmp") == 0
    assert sandbox.run("lmp") == 0
    assert "lmp" not in sandbox.calls()
    assert sandbox.calls().count("start") == 2


def test_the_init_container_copies_flux_and_may_run_again(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, scripts(train_job(), flux())["init.sh"], "job-node-0-0")
    (tmp_path / "opt/view/bin/flux").write_text("flux")
    for _ in range(2):
        assert sandbox.run() == 0
    assert (tmp_path / "mnt/flux/view/bin/flux").read_text() == "flux"
    assert [path.name for path in (tmp_path / "mnt/flux/software").iterdir()] == ["tool"]
