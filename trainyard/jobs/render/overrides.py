"""Overrides of earlier API versions: podSpecOverrides (v2.0) and podTemplateOverrides (v2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import TrainJobSpec
from trainyard.api.constants import KUEUE_POD_SET_LABEL
from trainyard.jobs.render.job_changes import Generation, ReplicatedJobChange
from trainyard.jobs.render.pod_editing import stored

POD_SPEC_OVERRIDES: Final = Generation("podSpecOverrides", "targetJob")
POD_TEMPLATE_OVERRIDES: Final = Generation("podTemplateOverrides", "targetJob")
_APPLIED_METADATA: Final = ("labels", "annotations")


def pod_spec_overrides(spec: TrainJobSpec) -> Iterator[ReplicatedJobChange]:
    """Yield the changes of podSpecOverrides; later entries for a replicatedJob take precedence."""
    for index, override in enumerate(spec.pod_spec_overrides or ()):
        pod = stored(override)
        del pod["targetJobs"]
        path = f"{POD_SPEC_OVERRIDES.path}[{index}]"
        for target in dict.fromkeys(target.name for target in override.target_jobs):
            yield ReplicatedJobChange(POD_SPEC_OVERRIDES, path, target, {"spec": {"template": {"spec": pod}}})


def pod_template_overrides(spec: TrainJobSpec) -> Iterator[ReplicatedJobChange]:
    """Yield the changes of podTemplateOverrides: labels, annotations and the pod specification."""
    for index, override in enumerate(spec.pod_template_overrides or ()):
        given = stored(override)
        metadata = {name: value for name, value in given.get("metadata", {}).items() if name in _APPLIED_METADATA}
        template = {
            **({"metadata": metadata} if metadata else {}),
            **({"spec": given["spec"]} if given.get("spec") else {}),
        }
        by_kueue = KUEUE_POD_SET_LABEL in (metadata.get("labels") or {})
        path = f"{POD_TEMPLATE_OVERRIDES.path}[{index}]"
        for target in dict.fromkeys(target.name for target in override.target_jobs):
            yield ReplicatedJobChange(
                POD_TEMPLATE_OVERRIDES,
                f"{path}.spec",
                target,
                {"spec": {"template": template}} if template else {},
                by_kueue,
            )
