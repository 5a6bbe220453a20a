"""The one run of the framework tests: every TrainJob submitted together, whatever places it, until its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.framework_cells import cell_runtimes, made_cells
from tests.cluster.framework_jobs import COMPLETING, ELSEWHERE, PATCHED, VOLUME, own_runtimes
from tests.cluster.frameworks import Runs, await_end, catalog, submit, watching
from tests.cluster.jobs import claim
from tests.cluster.stand_in import COSCHEDULING_POD_GROUPS, StandIn
from tests.docs.blocks import guide_runs
from tests.policy.conftest import COSCHEDULING_POD_GROUP
from tests.support import LiveCluster, awaited, require

MADE = made_cells()
"""The cases of the table in docs/frameworks that no other TrainJob is."""
GUIDES = {run.name: run for run in guide_runs()}
"""The TrainJobs of the documentation."""
HELD = (("secret", "resumed-mpi-ssh-auth"), ("configmap", "resumed-mpi-hostfile"))
"""What a suspended TrainJob has before it is resumed."""


@contextmanager
def ended(platform: LiveCluster, folder: Path) -> Iterator[Runs]:
    """Run every TrainJob of the tests to its end, and take everything away afterwards.

    Parameters
    ----------
    folder
        Where to record.
    """
    made = [cell.run() for cell in MADE.values()]
    every = Runs(platform, (*COMPLETING, *ELSEWHERE, *made, *GUIDES.values()))
    runtimes = [*catalog(platform), *own_runtimes(), *cell_runtimes()]
    require(platform.apply(*runtimes, *claims()))
    try:
        with watching(every, folder):
            later = {name for name, cell in MADE.items() if cell.gang == "coscheduling"}
            submit(every, set(every.runs) - later)
            resume(every)
            every.reported = install_coscheduling(every)
            submit(every, later)
            stand_in = StandIn(platform, sorted({run.namespace for run in every.runs.values()}))
            await_end(every, set(every.runs), meanwhile=stand_in.step)
            every.observe()
        yield every
    finally:
        for namespace in sorted({run.namespace for run in every.runs.values()}):
            jobs = [run.name for run in every.runs.values() if run.namespace == namespace]
            platform.kubectl("delete", "trainjobs", *jobs, "-n", namespace, "--ignore-not-found", "--wait=false")
        names = [body["metadata"]["name"] for body in runtimes]
        platform.kubectl("delete", "clustertrainingruntime", "--ignore-not-found", "--wait=false", *names)
        for claim in claims():
            metadata = claim["metadata"]
            platform.kubectl("delete", "pvc", metadata["name"], "-n", metadata["namespace"], "--ignore-not-found")
        platform.kubectl("delete", "crd", COSCHEDULING_POD_GROUPS, "--ignore-not-found", "--wait=false")


def claims() -> list[dict[str, Any]]:
    """Return the volumes that TrainJobs expect to find."""
    wanted = {("language", VOLUME), *((run.namespace, "dataset") for run in GUIDES.values())}
    return [claim(name, namespace) for namespace, name in sorted(wanted)]


def install_coscheduling(runs: Runs) -> list[str]:
    """Serve the PodGroups of the coscheduling plug-in; return what was reported of a job on it before."""
    events = ("events", "-n", "language", "--field-selector", "involvedObject.name=coscheduled")
    reported = awaited(
        "the message about a missing kind",
        lambda: [event["message"] for event in runs.platform.get(*events)["items"]],
        timeout=120,
    )
    require(runs.platform.apply(COSCHEDULING_POD_GROUP))
    name = f"crd/{COSCHEDULING_POD_GROUPS}"
    require(runs.platform.kubectl("wait", "--for=condition=Established", "--timeout=60s", name))
    require(runs.platform.kubectl("annotate", "trainjob", "coscheduled", "-n", "language", "example.com/again=now"))
    return reported


def resume(runs: Runs) -> None:
    """Change and resume the suspended TrainJob; keep what it had before as `runs.before`."""
    runs.platform.condition("resumed", "language", "Suspended")
    awaited("the JobSet of the suspended job", lambda: runs.platform.get("jobset", "resumed", "-n", "language"))
    for kind, name in HELD:
        runs.before[kind] = runs.platform.get(kind, name, "-n", "language")
    patches = runs.platform.get("trainjob", "resumed", "-n", "language")["spec"]["runtimePatches"]
    jobs = patches[0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    jobs.append({"name": "launcher", "template": {"spec": {"template": {"metadata": {"labels": {PATCHED: "new"}}}}}})
    change = json.dumps({"spec": {"suspend": False, "runtimePatches": patches}})
    require(runs.platform.kubectl("patch", "trainjob", "resumed", "-n", "language", "--type=merge", "-p", change))
