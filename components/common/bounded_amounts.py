"""Match conditions by which objects with amounts of many digits or long exponents never reach a mutating webhook.

A program in Go calculates with all digits and the whole exponent of an amount when it decodes an object, past the
timeout of the webhook. Policies are evaluated after mutating webhooks, and before validating ones: rule BND-004 denies
these objects without their having been decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.quantity import LONG_EXPONENT, MAX_LENGTH

_SHORT: Final = (
    f'(amount == null || [string(amount)].all(text, text.size() <= {MAX_LENGTH} && !text.matches("{LONG_EXPONENT}")))'
)


def _amounts(of: str) -> str:
    return f"{of}.orValue(dyn({{}})).all(name, amount, {_SHORT})"


def _amount(of: str) -> str:
    return f"[{of}.orValue(dyn(null))].all(amount, {_SHORT})"


_RESOURCES: Final = " && ".join(_amounts(f"each.?resources.?{kind}") for kind in ("limits", "requests"))
_VARIABLES: Final = f".orValue([]).all(variable, {_amount('variable.?valueFrom.?resourceFieldRef.?divisor')})"
_FILES: Final = f".orValue([]).all(file, {_amount('file.?resourceFieldRef.?divisor')})"
_POD: Final = " && ".join(
    (
        f"[pod].all(each, {_RESOURCES})",
        _amounts("pod.?overhead"),
        '["containers", "initContainers", "ephemeralContainers"].all(field, pod[?field].orValue([]).all(each, '
        f"{_RESOURCES} && each.?env{_VARIABLES}))",
        f"pod.?volumes.orValue([]).all(volume, {_amount('volume.?emptyDir.?sizeLimit')}"
        f" && [volume.?ephemeral.?volumeClaimTemplate.?spec.orValue(dyn({{}}))].all(each, {_RESOURCES})"
        f" && volume.?downwardAPI.?items{_FILES}"
        f" && volume.?projected.?sources.orValue([]).all(source, source.?downwardAPI.?items{_FILES}))",
    )
)
_JOB_SET: Final = (
    "dyn(object).?spec.?replicatedJobs.orValue([]).all(job,"
    f" [job.?template.?spec.?template.?spec.orValue(dyn({{}}))].all(pod, {_POD}))"
    " && dyn(object).?spec.?volumeClaimPolicies.orValue([]).all(policy, policy.?templates.orValue([]).all(claim,"
    f" [claim.?spec.orValue(dyn({{}}))].all(each, {_RESOURCES})"
    f" && {_amounts('claim.?status.?capacity')} && {_amounts('claim.?status.?allocatedResources')}))"
)
_VOLCANO_JOB: Final = (
    "dyn(object).?spec.?tasks.orValue([]).all(task,"
    f" [task.?template.?spec.orValue(dyn({{}}))].all(pod, {_POD}))"
    " && dyn(object).?spec.?volumes.orValue([]).all(volume,"
    f" [volume.?volumeClaim.orValue(dyn({{}}))].all(each, {_RESOURCES}))"
)
_TRAIN_JOB: Final = " && ".join(
    (
        *(_amounts(f"dyn(object).?spec.?trainer.?resourcesPerNode.?{kind}") for kind in ("limits", "requests")),
        *(
            f"dyn(object).?spec.?{holder}.?env{_VARIABLES}"
            for holder in ("trainer", "initializer.?dataset", "initializer.?model")
        ),
        "dyn(object).?spec.?runtimePatches.orValue([]).all(patch,"
        " patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]).all(job,"
        f" [job.?template.?spec.?template.?spec.orValue(dyn({{}}))].all(pod, {_POD})))",
        "dyn(object).?spec.?podTemplateOverrides.orValue([]).all(override,"
        f" [override.?spec.orValue(dyn({{}}))].all(pod, {_POD}))",
        f"dyn(object).?spec.?podSpecOverrides.orValue([]).all(pod, {_POD})",
    )
)
_QUEUE: Final = " && ".join(
    _amounts(f"dyn(object).?spec.?{field}") for field in ("capability", "deserved", "guarantee.?resource")
)
BOUNDED: Final[Mapping[tuple[str, str], str]] = {
    ("jobset.x-k8s.io", "jobsets"): _JOB_SET,
    ("batch.volcano.sh", "jobs"): _VOLCANO_JOB,
    ("scheduling.volcano.sh", "podgroups"): _amounts("dyn(object).?spec.?minResources"),
    ("scheduling.volcano.sh", "queues"): _QUEUE,
    ("trainer.kubeflow.org", "trainjobs"): _TRAIN_JOB,
}
"""Conditions on objects by group and resource: each amount is short enough to be read."""


def with_bounded_amounts(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration of mutating webhooks that get no object with amounts that are too long."""
    if configuration["kind"] != "MutatingWebhookConfiguration":
        return dict(configuration)
    return {**configuration, "webhooks": [_bounded(webhook) for webhook in configuration["webhooks"]]}


def _bounded(webhook: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        BOUNDED[group, name]
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
        if (group, name) in BOUNDED
    }
    if not found:
        return dict(webhook)
    condition = {"name": "amounts-are-short", "expression": f"object == null || {' && '.join(sorted(found))}"}
    return {**webhook, "matchConditions": [*webhook.get("matchConditions", ()), condition]}
