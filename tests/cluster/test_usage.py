"""Device-hours of jobs on the platform: what the controller records of a job that is gone, and who may read it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.common.rbac import role, role_binding
from tests.cluster.jobs import lasting, train_job
from tests.support import LiveCluster, awaited, in_process, require
from trainyard.insight.usage.record import HEAD, names_of

pytestmark = pytest.mark.cluster

HOME, READER = "kubeflow-system", "usage-reader"
NAME, NODES, DEVICES = "counted", 2, 8
RULE = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [HEAD, *names_of(""), *names_of("vision")]}
"""What component tenants grants; tests/components/test_tenants.py compares the names."""


def usage(kubeconfig: Path, *arguments: str) -> Any:
    return in_process("usage", "--kubeconfig", str(kubeconfig), "--by", "job", "-o", "json", *arguments)


def row(platform: LiveCluster, until: datetime.datetime) -> dict[str, Any] | None:
    """Return what the job had, once the record says what was until then: earlier it may say only how long it waited."""
    found = json.loads(require(usage(platform.kubeconfig, "--last", "1h")))
    if datetime.datetime.fromisoformat(found["recorded"]["to"]) < until:
        return None
    jobs = (each for each in found["rows"] if (each["tenant"], each["job"]) == ("vision", f"trainjob/{NAME}"))
    return next(jobs, None)


def device_hours(platform: LiveCluster, since: str) -> float:
    """Return what the pods had, by their own times."""
    seconds = 0.0
    for pod in platform.pods(NAME, "vision"):
        conditions = {each["type"]: each for each in pod["status"]["conditions"]}
        (container,) = pod["status"]["containerStatuses"]
        times = (conditions["PodScheduled"]["lastTransitionTime"], container["state"]["terminated"]["finishedAt"])
        started, ended = map(datetime.datetime.fromisoformat, times)
        assert started >= datetime.datetime.fromisoformat(since)
        seconds += (ended - started).total_seconds()
    return seconds * DEVICES / 3600


def test_a_job_that_is_gone_is_counted_and_its_tenant_reads_it(platform: LiveCluster, tmp_path: Path) -> None:
    body = train_job(NAME, "vision", "torch-distributed", nodes=NODES, runtimePatches=[lasting("5s")])
    require(platform.apply(body))
    platform.condition(NAME, "vision", "Complete")
    since = platform.get("trainjob", NAME, "-n", "vision")["metadata"]["creationTimestamp"]
    expected = device_hours(platform, since)
    require(platform.kubectl("delete", "trainjob", NAME, "-n", "vision"))
    awaited("the pods to go", lambda: not platform.pods(NAME, "vision"))

    gone = datetime.datetime.now(datetime.UTC)
    found = awaited("the record of the job", lambda: row(platform, gone), timeout=90)
    names = {name: found[name] for name in ("queue", "runtime", "resource")}
    assert names == {"queue": "vision", "runtime": "torch-distributed", "resource": "nvidia.com/gpu"}
    second = NODES * DEVICES / 3600
    assert found["allocated"] == pytest.approx(expected, abs=second)
    assert found["asked"] == pytest.approx(found["allocated"] + found["waited"], abs=1e-5)
    assert (found["borrowed"], found["takenBack"], found["lent"]) == (0, 0, None)

    assert_a_tenant_reads_only_its_own(platform, tmp_path, found)


def assert_a_tenant_reads_only_its_own(platform: LiveCluster, folder: Path, expected: dict[str, Any]) -> None:
    account = {"kind": "ServiceAccount", "name": READER, "namespace": "vision"}
    objects = (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER, "namespace": "vision"}},
        role(READER, HOME, [{**RULE, "verbs": ["get"]}]),
        role_binding(READER, HOME, [account]),
    )
    try:
        require(platform.apply(*objects))
        config = yaml.safe_load(platform.kubeconfig.read_text())
        token = require(platform.kubectl("create", "token", READER, "-n", "vision")).strip()
        config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
        own = folder / "kubeconfig"
        own.write_text(yaml.safe_dump(config))
        done = awaited("the role", lambda: (each := usage(own, "-n", "vision")).returncode == 0 and each)
        assert expected in json.loads(done.stdout)["rows"]
        for arguments in ((), ("-n", "language")):
            denied = usage(own, *arguments)
            assert (denied.returncode, "may not be read (no permission)" in denied.stderr) == (2, True)
    finally:
        for each in objects:
            name, namespace = each["metadata"]["name"], each["metadata"]["namespace"]
            platform.kubectl("delete", "--ignore-not-found", each["kind"], name, "-n", namespace)
