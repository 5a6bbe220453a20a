"""Differences of TrainJobs in a queue of Kueue."""

from __future__ import annotations

from tests.compatibility.compared_case import Scene, main_container, parallelism
from tests.compatibility.differences.difference import Difference
from trainyard.checks.finding import Finding


def _counted(scene: Scene, error: Finding) -> bool:
    """Tell whether an error names the pods that upstream makes, which Kueue counts, or resources that it replaces."""
    if not scene.queued or not scene.objects:
        return False
    pods = ", ".join(f"{job['name']} x {parallelism(job) * int(job.get('replicas', 1))}" for job in scene.jobs)
    if error.path == "spec.runtimeRef":
        return f"Kueue counts the pods {pods}, but the job runs" in error.message
    return error.path == "spec.trainer.resourcesPerNode" and "Kueue counts" in error.message and _replaced(scene)


def _replaced(scene: Scene) -> bool:
    """Tell whether a container of the runtime has a resource that the TrainJob does not name."""
    named = _names(scene.trainer.get("resourcesPerNode") or {})
    return any(_names((main_container(job) or {}).get("resources", {})) - named for job in scene.runtime_jobs)


def _names(resources: dict[str, dict[str, object]]) -> set[str]:
    return {name for kind in ("limits", "requests") for name in resources.get(kind) or ()}


KUEUE: tuple[Difference, ...] = (
    Difference(
        "kueue-counts",
        "TrainJob in a queue of Kueue that runs other pods than Kueue counts",
        "accepted; MPI launchers are made as counted, and resources that Kueue does not see are not charged",
        "rejected, with what Kueue counts and the fix: see [kueue.md](kueue.md#what-kueue-counts)",
        "quota must cover what runs",
        finding=_counted,
    ),
)
