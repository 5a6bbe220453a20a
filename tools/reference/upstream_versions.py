"""Fields of each upstream release, and deliberate differences from the latest one.

A test compares these tables with the CRDs of the releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trainyard.api.extensions import ExtensiblePolicy
from trainyard.api.gang_policy import PodGroupPolicy
from trainyard.api.ml_policy import MLPolicy

RELEASES: Final = ("v2.0", "v2.1", "v2.2", "v2.3")
"""Supported releases of the Kubeflow Trainer API."""

Table = Mapping[str, tuple[str, ...]]
"""Limits of a field by release: text, ``=`` (the same as here), or empty (no such field)."""

_NONE: Final = "no limits"
_NEVER: Final = ("",) * len(RELEASES)
_UNBOUNDED: Final = (_NONE,) * len(RELEASES)
_UNTIL_V2_1: Final = (_NONE, _NONE, "=", "=")


@dataclass(frozen=True)
class Difference:
    """A deliberate difference from upstream's schema.

    Parameters
    ----------
    path
        Field whose schema differs.
    keys
        Keys of the schema that differ.
    reason
        Why.
    """

    path: str
    keys: frozenset[str]
    reason: str


def releases_of(table: Table, path: str) -> tuple[str, ...]:
    """Return the limits of a field by release.

    A field missing in the table exists in the releases that have its parent, with the same limits as here.
    """
    found = table.get(path)
    if found is not None:
        return found
    above = [other for other in table if path.startswith((f"{other}.", f"{other}[", f"{other}{{"))]
    if not above:
        return ("=",) * len(RELEASES)
    return tuple("=" if cell else "" for cell in table[max(above, key=len)])


_POD_PATCH: Final = (
    "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
)
_MANAGED_BY: Final = (
    'default `"trainer.kubeflow.org/trainjob-controller"`, rule “ManagedBy must be '
    "trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set”, immutable"
)
_ONE_POLICY: Final = "rule “Only one of the policy can be configured”"
_OLD_POLICIES: Final = f"rule “numNodes should not be set if torch.elasticPolicy is configured”, {_ONE_POLICY}"
_WORDS: Final = 'number or text, default `"auto"`, rule “NumProcPerNode must be equal to auto, cpu, gpu, or int value”'
_OPEN_MPI: Final = 'default `"OpenMPI"`, `"OpenMPI"`'
_SSH_PATH: Final = 'default `"/root/.ssh"`'

TRAIN_JOB: Final[Table] = {
    "spec.runtimeRef.name": (_NONE, "not empty", "=", "="),
    "spec.runtimeRef.apiGroup": ('default `"trainer.kubeflow.org"`', 'default `"trainer.kubeflow.org"`', "=", "="),
    "spec.runtimeRef.kind": ('default `"ClusterTrainingRuntime"`', 'default `"ClusterTrainingRuntime"`', "=", "="),
    "spec.initializer": _UNTIL_V2_1,
    "spec.initializer.dataset.storageUri": (_NONE, _NONE, "at most 2048 characters", "="),
    "spec.initializer.dataset.env": _UNTIL_V2_1,
    "spec.initializer.model.storageUri": (_NONE, _NONE, "at most 2048 characters", "="),
    "spec.initializer.model.env": _UNTIL_V2_1,
    "spec.trainer": _UNTIL_V2_1,
    "spec.trainer.image": _UNTIL_V2_1,
    "spec.trainer.command": _UNTIL_V2_1,
    "spec.trainer.command[]": (_NONE, _NONE, "at most 65536 characters", "="),
    "spec.trainer.args": _UNTIL_V2_1,
    "spec.trainer.args[]": (_NONE, _NONE, "at most 65536 characters", "="),
    "spec.trainer.env": _UNTIL_V2_1,
    "spec.trainer.numNodes": _UNBOUNDED,
    "spec.trainer.numProcPerNode": ("number or text", "number or text", _NONE, _NONE),
    "spec.labels": ("=", "=", "", ""),
    "spec.annotations": ("=", "=", "", ""),
    "spec.podSpecOverrides": ("=", "", "", ""),
    "spec.podSpecOverrides[].initContainers[].name": (_NONE, "", "", ""),
    "spec.podSpecOverrides[].containers[].name": (_NONE, "", "", ""),
    "spec.podSpecOverrides[].targetJobs[].name": (_NONE, "", "", ""),
    "spec.podTemplateOverrides": ("", "=", "", ""),
    "spec.runtimePatches": ("", "", "=", "="),
    f"{_POD_PATCH}.terminationGracePeriodSeconds": ("", "", "", "="),
    "spec.activeDeadlineSeconds": ("", "", "=", "="),
    "spec.managedBy": (_MANAGED_BY, _MANAGED_BY, "=", "="),
    "status": (_NONE, "=", "=", "="),
    "status.conditions": _UNTIL_V2_1,
    "status.jobsStatus": _UNTIL_V2_1,
    "status.jobsStatus[].name": (_NONE, "not empty", "=", "="),
    "status.jobsStatus[].ready": (_NONE, "=", "=", "="),
    "status.jobsStatus[].succeeded": (_NONE, "=", "=", "="),
    "status.jobsStatus[].failed": (_NONE, "=", "=", "="),
    "status.jobsStatus[].active": (_NONE, "=", "=", "="),
    "status.jobsStatus[].suspended": (_NONE, "=", "=", "="),
    "status.trainerStatus": ("", "", "=", "="),
    "status.jobSet": _NEVER,
}
"""Fields of a TrainJob."""

_RUNTIME: Final[Table] = {
    "spec": ("requires template", "=", "=", "="),
    "spec.mlPolicy": (_OLD_POLICIES, _OLD_POLICIES, _ONE_POLICY, _ONE_POLICY),
    "spec.mlPolicy.numNodes": _UNBOUNDED,
    "spec.mlPolicy.torch.numProcPerNode": (_WORDS, _WORDS, "", ""),
    "spec.mlPolicy.torch.elasticPolicy": (_NONE, _NONE, "", ""),
    "spec.mlPolicy.torch.elasticPolicy.maxRestarts": (_NONE, _NONE, "", ""),
    "spec.mlPolicy.torch.elasticPolicy.minNodes": (_NONE, _NONE, "", ""),
    "spec.mlPolicy.torch.elasticPolicy.maxNodes": (_NONE, _NONE, "", ""),
    "spec.mlPolicy.torch.elasticPolicy.metrics[].type": (_NONE, _NONE, "", ""),
    "spec.mlPolicy.torch.envInjection": ("", "", "", "="),
    "spec.mlPolicy.mpi.numProcPerNode": ("default `1`",) * 4,
    "spec.mlPolicy.mpi.mpiImplementation": (_OPEN_MPI, *(f'{_OPEN_MPI} or `""`',) * 3),
    "spec.mlPolicy.mpi.sshAuthMountPath": (*(_SSH_PATH,) * 2, *(f"{_SSH_PATH}, at most 4096 characters",) * 2),
    "spec.mlPolicy.jax": ("", "", "=", "="),
    "spec.mlPolicy.xgboost": ("", "", "=", "="),
    "spec.mlPolicy.flux": ("", "", "=", "="),
    "spec.podGroupPolicy": _UNBOUNDED,
    "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds": ("default `60`",) * 4,
    "spec.podGroupPolicy.volcano": ("", "=", "=", "="),
    "spec.podGroupPolicy.volcano.networkTopology": ("", _NONE, _NONE, _NONE),
    "spec.podGroupPolicy.volcano.networkTopology.highestTierAllowed": ("", "default `1`", "default `1`", "default `1`"),
    "spec.podGroupPolicy.volcano.networkTopology.highestTierName": _NEVER,
    "spec.podGroupPolicy.volcano.subGroupPolicy": _NEVER,
    "spec.podGroupPolicy.volcano.minTaskMember": _NEVER,
    "spec.template": (_NONE, "=", "=", "="),
}
"""Fields of a runtime that a release of upstream has, and what it lacks of them."""

_BOUND: Final = (
    "with 0 or a negative number, a job completes at once without pods, or the API server rejects its objects"
)
_VALIDATIONS: Final = frozenset({"x-kubernetes-validations"})
_MINIMUM: Final = frozenset({"minimum"})
_LEAST_LENGTH: Final = frozenset({"minLength"})
_NAME: Final = "an empty name matches nothing in the runtime"

DIFFERENCES: Final[Mapping[str, tuple[Difference, ...]]] = {
    "TrainJob": (
        Difference("spec.trainer.numNodes", _MINIMUM, f"{_BOUND} (#3809)"),
        Difference(
            "spec.trainer.numProcPerNode",
            frozenset({"anyOf", "format", "type", "x-kubernetes-int-or-string"}) | _VALIDATIONS,
            "v2.0 and v2.1 accept auto, cpu and gpu; admission replaces them, so that only numbers of 1 or more are "
            "stored, which clients of v2.2 and later can decode (#3809)",
        ),
        Difference("spec.podSpecOverrides[].initContainers[].name", _LEAST_LENGTH, _NAME),
        Difference("spec.podSpecOverrides[].containers[].name", _LEAST_LENGTH, _NAME),
        Difference("spec.podSpecOverrides[].targetJobs[].name", _LEAST_LENGTH, _NAME),
    ),
    "runtimes": (
        Difference(
            "spec.mlPolicy",
            _VALIDATIONS,
            "MLP-001 covers the additional frameworks too; MLP-002 is the elasticPolicy rule of v2.0 and v2.1",
        ),
        Difference("spec.mlPolicy.numNodes", _MINIMUM, f"{_BOUND} (#3809)"),
        Difference(
            "spec.mlPolicy.torch.numProcPerNode",
            frozenset({"default"}) | _VALIDATIONS,
            "unset means auto, so runtimes of v2.3 are not changed; the number must be a 32-bit integer",
        ),
        Difference("spec.mlPolicy.torch.elasticPolicy", _VALIDATIONS, "MLP-003: such a job could never start"),
        Difference(
            "spec.mlPolicy.torch.elasticPolicy.maxRestarts", _MINIMUM, "a negative number of restarts is invalid"
        ),
        Difference("spec.mlPolicy.torch.elasticPolicy.minNodes", _MINIMUM, _BOUND),
        Difference("spec.mlPolicy.torch.elasticPolicy.maxNodes", _MINIMUM, _BOUND),
        Difference(
            "spec.mlPolicy.torch.elasticPolicy.metrics[]",
            frozenset({"x-kubernetes-preserve-unknown-fields"}),
            "MetricSpecs are preserved; the autoscaling API validates them",
        ),
        Difference("spec.mlPolicy.torch.elasticPolicy.metrics[].type", _LEAST_LENGTH, "no metric has an empty type"),
        Difference("spec.mlPolicy.mpi.numProcPerNode", _MINIMUM, f"{_BOUND} (#3809)"),
        Difference(
            "spec.mlPolicy.mpi.mpiImplementation",
            frozenset({"enum"}),
            "Intel MPI and MPICH are supported (#1807)",
        ),
        Difference("spec.mlPolicy.mpi.sshAuthMountPath", _LEAST_LENGTH, "API servers reject an empty mount path"),
        Difference(
            "spec.podGroupPolicy",
            _VALIDATIONS,
            "PGP-001: upstream has only a comment, creates two PodGroups, and no scheduler places the gang",
        ),
        Difference(
            "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds", _MINIMUM, "a negative timeout is invalid"
        ),
        Difference(
            "spec.podGroupPolicy.volcano.networkTopology",
            _VALIDATIONS,
            "PGP-002: a tier is set by number or name; the number's default 1 is ignored if a name is set",
        ),
        Difference(
            "spec.podGroupPolicy.volcano.networkTopology.highestTierAllowed",
            _MINIMUM,
            "Volcano's PodGroup rejects negative numbers",
        ),
    ),
}
"""Schema keys that differ from v2.3, or from the last release with the field, by kind."""

_FORMER: Final = "a field of an earlier release, accepted with its original meaning"

_ADDED: Final[Mapping[str, Mapping[str, str]]] = {
    "TrainJob": {
        "spec.annotations": _FORMER,
        "spec.labels": _FORMER,
        "spec.podSpecOverrides": _FORMER,
        "spec.podTemplateOverrides": _FORMER,
        "status.jobSet": "distinguishes a deleted JobSet from one that was never created",
    },
    "runtimes": {
        "spec.mlPolicy.torch.elasticPolicy": f"{_FORMER}, and working (#2903)",
        "spec.mlPolicy.torch.numProcPerNode": _FORMER,
        "spec.podGroupPolicy.volcano.networkTopology.highestTierName": "Volcano supports tier names since 1.15",
        "spec.podGroupPolicy.volcano.subGroupPolicy": "groups of a gang that have limits of their own; absent upstream",
        "spec.podGroupPolicy.volcano.minTaskMember": "minimum number of pods of each replicatedJob",
    },
}
"""Fields that v2.3 lacks, by kind, but for those of plug-ins."""


def runtime() -> Table:
    """Return the fields of a runtime."""
    return {**_RUNTIME, **dict.fromkeys(_of_plugins(), _NEVER)}


def added() -> Mapping[str, Mapping[str, str]]:
    """Return the fields that v2.3 lacks, and why they are here, by kind."""
    return {**_ADDED, "runtimes": dict(sorted({**_ADDED["runtimes"], **_of_plugins()}.items()))}


def _of_plugins() -> Mapping[str, str]:
    """Return the fields of plug-ins that no release has, and why they are here."""
    policies: Mapping[str, type[ExtensiblePolicy]] = {"spec.mlPolicy": MLPolicy, "spec.podGroupPolicy": PodGroupPolicy}
    return {
        f"{path}.{name}": plugin.added
        for path, policy in policies.items()
        for name, plugin in policy.plugins().items()
        if plugin.added
    }
