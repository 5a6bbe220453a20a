"""Values that have caused defects: for any field, and for the fields that rules read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

QUEUE: Final = "scheduling.volcano.sh/queue-name"
STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"

QUEUES: Final[Sequence[Any]] = (
    "vision", "language", "default", "root", "", " ", "vision ", " vision", "Vision", "vision/vision", "team/vision",
    "/vision", "vision/", "*", "-vision", "vision-", "vis.ion", "visiön", "視覚", "vision\n", "vision,language",
    "v" * 300, None, 7,
)  # fmt: skip

AMOUNTS: Final[Sequence[Any]] = (
    0, 1, 2, 8, 16, 17, 1000, "0", "1", "2", "8", "16", "17", "8000m", "500m", "1500m", "0m", "0.0", "00", "08", "8.",
    ".5", "8e0", "1e1", "1E1", "0.5", "1.5", "-1", "-0", "+1", "+0", "", " 8", "8 ", "0x8", "1Ki", "1k", "1_000", "９",
    "eight", "1e99", "1e1.5", "99999999999999999999", "1Ei", "1Gi", "16Gi", "64Gi", "9223372036854775808", "1n", 8.5,
    0.0, True, None,
)  # fmt: skip

NUMBERS: Final[Sequence[Any]] = (
    -1, 0, 1, 2, 3, 8, 20, 21, 50, 51, 2592000, 2592001, 2147483646, 2147483647, 2147483648, 9007199254740993, "1",
    1.0, 1.5, True, None,
)  # fmt: skip

TEXTS: Final[Sequence[Any]] = (
    "", " ", "x", "node", "trainer", "volcano", "default-scheduler", "scheduler-plugins-scheduler", "Always", "Never",
    "OnFailure", "InPlaceRestart", "Failed", "any", "Memory", "hard", "soft", "rack", "spine", "deprecated",
    "Unconfined", "Unmasked", "default", "normal", "system-node-critical", "queue", "QUEUE", "Queue", "*", "a, b",
    "a: b", "ünï-côdé", "名前", "x" * 300, '"quoted"', "back\\slash", "null", "true", "0", None,
)  # fmt: skip

ANY: Final[Sequence[Any]] = (None, "", 0, 1, -1, 1.5, True, False, [], {}, [None], [""], {"": ""}, "text", ["text"])

KEYS: Final[Mapping[str, Sequence[Any]]] = {
    "queue": QUEUES,
    "replicas": NUMBERS,
    "count": NUMBERS,
    "allocationMode": ("All", "ExactCount", "", None),
    "deviceClassName": ("gpu.nvidia.com", "mig.nvidia.com", "", None),
    "adminAccess": (True, False, None),
    "parallelism": NUMBERS,
    "numNodes": NUMBERS,
    "minAvailable": NUMBERS,
    "minMember": NUMBERS,
    "maxRetry": NUMBERS,
    "maxRestarts": NUMBERS,
    "backoffLimit": NUMBERS,
    "backoffLimitPerIndex": NUMBERS,
    "activeDeadlineSeconds": NUMBERS,
    "highestTierAllowed": NUMBERS,
    "terminationGracePeriodSeconds": (0, 30, 600, 601, 86400, 2147483648, -1, "30", None),
    "namespaces": ([], ["vision"], ["a", "b"], [""], None),
    "namespaceSelector": ({}, {"matchLabels": {"a": "b"}}, None),
    "finalizers": (["example.com/x"], ["batch.kubernetes.io/job-tracking"], [], None),
    "hostPort": NUMBERS,
    "runAsUser": NUMBERS,
    "sizeLimit": AMOUNTS,
    "image": (
        "", " ", "pytorch", "pytorch:2.8.0", "pytorch:latest", "pytorch:LATEST", "pytorch:2.8-stable",
        "docker.io/x/y:1",
        "registry.example/a/b:1.0", "registry.example:5000/a/b", "registry.example:5000/a/b:1", "localhost/a:1",
        "localhost:5000/a:1", "registry.example.evil/a:1", "a/b@sha256:" + "0" * 64, "a/b:1@sha256:" + "f" * 64,
        "a/b@sha256:" + "F" * 64, "a/b@sha512:" + "0" * 128, "a//b:1", "a:1:2", ":1", "a:", "A/b:1", "bïld:1", "a:1 ",
    ),
    "mountPath": ("/dev/shm", "/dev/shm/", "//dev//shm", "/dev/shm/x", "dev/shm", "/DEV/SHM", "", "/dev/./shm", None),
    "schedulerName": (
        "volcano", "", " ", "default-scheduler", "kai-scheduler", "Volcano", "scheduler-plugins-scheduler", None,
    ),
    "serviceAccountName": ("default", "trainer", "builder", "", None),
    "serviceAccount": ("default", "trainer", "builder", "", None),
    "priorityClassName": ("normal", "high", "system-node-critical", "system-cluster-critical", "", None),
    "nodeName": ("", "node-1", " ", None),
    "restartPolicy": ("Always", "Never", "OnFailure", "", "ExitCode", None),
    "manager": (
        "kueue.x-k8s.io/manager", "trainyard.dev/x", "team.example/x", "KUEUE.x-k8s.io/manager", "kueue.x-k8s.io",
        "", None,
    ),
    "kind": ("Queue", "queue", "Job", "TrainJob", "TrainingRuntime", "ClusterTrainingRuntime", "", None),
    "name": TEXTS,
    "mode": ("hard", "soft", "", "HARD", None),
    "suspend": (True, False, None),
    "value": ("all", "none", "void", "", " none", "0", None),
    "prefix": ("", "NVIDIA_", "N", "nvidia_", "A", None),
    "volumeName": ("data-1", "", "other", "data-", None),
    "storageClassName": ("fast", "", "slow", None),
    "volumeAttributesClassName": ("fast", "", "slow", None),
    "runtimeClassName": ("nvidia", "gvisor", "", "nvidia-cdi", None),
}  # fmt: skip

ANNOTATIONS: Final[Mapping[str, Sequence[Any]]] = {
    QUEUE: QUEUES,
    "trainyard.dev/released": ("0" * 64, "", "x", None),
    "trainyard.dev/alias-of": ("torch-distributed-1.0", "", None),
    "trainyard.dev/deprecated-since": (
        "2026-01-01",
        "2026-13-01",
        "",
        " 2026-01-01",
        "2026-1-1",
        "２０２６-01-01",
        None,
    ),
    "trainyard.dev/remove-after": ("2026-06-30", "2025-06-30", "2026-01-01", "", "2026-06-30\n", None),
    "alpha.jobset.sigs.k8s.io/exclusive-topology": ("kubernetes.io/hostname", "", None),
    "volcano.sh/network-topology-mode": ("hard", "soft", "Soft", "", " hard", None),
    "volcano.sh/network-topology-highest-tier": ("1", "2", "3", "0", "01", "+1", "1 ", "rack", "", None),
    "note": ("", "x", "ünï", None),
    "cdi.k8s.io/a": ("nvidia.com/gpu=all", "", None),
    "volcano.sh/cooldown-time": ("1h", "", None),
    "volcano.sh/template-uid": ("a-b", "", None),
    "volume.kubernetes.io/selected-node": ("node-1", "", None),
}

LABELS: Final[Mapping[str, Sequence[Any]]] = {
    STEP: ("trainer", "dataset-initializer", "model-initializer", "Trainer", "", "launcher", None),
    "trainer.kubeflow.org/framework": ("torch", "jax", "", "Torch", "pytorch", None),
    "trainer.kubeflow.org/support": ("deprecated", "Deprecated", "", "active", None),
    "trainyard.dev/tenant": ("vision", "", None),
    "kai.scheduler/queue": ("vision", "language", "default-queue", "", None),
    "kueue.x-k8s.io/priority-class": ("normal", "high", "urgent", "", None),
    "jobset.sigs.k8s.io/job-key": ("0a", "", None),
    "app.kubernetes.io/managed-by": ("trainyard", "helm", "", None),
    "pod-security.kubernetes.io/enforce": ("privileged", "restricted", "", None),
    "note": ("", "x", None),
}

ACCELERATORS: Final = (
    "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/gpu", "example.com/gpus", "google.com/tpu",
    "nvidia.com/gpu.shared", "gpu", "cpu", "memory", "nvidia.com/gpumem", "koordinator.sh/gpu-core", "habana.ai/gaudi",
    "example.com/gpu-fan",
)  # fmt: skip
