"""Names of the trainer API that users, the SDK, Kueue and dashboards depend on."""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"
TRAIN_JOB: Final = "TrainJob"
TRAINING_RUNTIME: Final = "TrainingRuntime"
CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"
MANAGED_BY_TRAINER: Final = "trainer.kubeflow.org/trainjob-controller"
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
KUEUE_POD_SET_LABEL: Final = "kueue.x-k8s.io/podset"
"""Label of pods that Kueue admitted, and so of the overrides that it adds to a TrainJob."""
KUEUE_MANAGERS: Final = "kueue.x-k8s.io/"
"""Prefix of the managers of patches that Kueue adds to a TrainJob."""
KUEUE_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
REPLICATED_JOB_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
"""Label of a Job and its pods with the name of their replicatedJob."""
FIELD_MANAGER: Final = "trainer"
STACK_FIELD_MANAGER: Final = "trainyard"
"""Field manager of the objects that a stack declares."""

PLATFORM_GROUP: Final = "trainyard.dev"
PLATFORM_API_VERSION: Final = "trainyard.dev/v1alpha1"
TENANT_POLICY_NAME: Final = "tenant"
PLATFORM_NAME: Final = "platform"
STACK_LABEL: Final = "trainyard.dev/stack"
"""Label of the objects that a stack applies: the name of the stack, after that of another project than this one."""
ADOPTED_ANNOTATION: Final = "trainyard.dev/adopted"
"""On an object that another owner created: `true` (kept by `destroy`) or `owned` (deleted by `destroy`)."""
CONTROLLER_SERVICE: Final = "kubeflow-trainer-controller-manager"
"""Name of the controller's Service, Deployment and ServiceAccount, the same as upstream's."""

JOB_SET_API_VERSION: Final = "jobset.x-k8s.io/v1alpha2"
JOB_SET_NAME_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""Name of the JobSet of a Job or a pod."""
VOLCANO_SCHEDULER: Final = "volcano"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
GROUP_NAME_ANNOTATION: Final = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_NAME_ANNOTATION: Final = "scheduling.volcano.sh/group-name"
"""Volcano declares this key too but reads only the other one; older clients read it."""
TOPOLOGY_FEATURE: Final = "network-topology-aware"
"""Scheduler plug-in that implements networkTopology."""

SYSTEM_PRIORITY_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})

ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of a replicatedJob's Job template: the part of the TrainJob that configures it."""
TRAINER: Final = "trainer"
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
CONTAINER_NODE: Final = "node"
ANCESTOR_CONTAINERS: Final = {
    TRAINER: CONTAINER_NODE,
    DATASET_INITIALIZER: DATASET_INITIALIZER,
    MODEL_INITIALIZER: MODEL_INITIALIZER,
}
"""Container that each ancestor step configures."""
INITIALIZER_VOLUME: Final = "initializer"
STORAGE_URI_ENV: Final = "STORAGE_URI"
TRAINER_PORT: Final = 29500
TORCHTUNE_MODEL_ANNOTATION: Final = "trainyard.dev/torchtune-model"
"""Annotation of a runtime: the model to tune; default: derived from its name."""
JOB_INDEX_LABEL: Final = "jobset.sigs.k8s.io/job-index"
"""Label of a Job and its pods with the index of the replica of its replicatedJob."""
COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""Label of a pod with its index in its Job; an annotation, too."""
JOB_COMPLETION_INDEX_FIELD: Final = f"metadata.annotations['{COMPLETION_INDEX_LABEL}']"

FRAMEWORK_LABEL: Final = "trainer.kubeflow.org/framework"
"""Label of runtimes, by which the SDK lists them."""
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"
WEBHOOK_VALIDATION_LABEL: Final = "trainer.kubeflow.org/webhook-validation"
WEBHOOK_VALIDATION_DISABLED: Final = "disabled"
SUPPORT_DEPRECATED: Final = "deprecated"
DEPRECATION_POLICY_URL: Final = (
    "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"
)

RELEASED_ANNOTATION: Final = "trainyard.dev/released"
"""Annotation of a released runtime: the hash of its spec."""

SNAPSHOT_SUFFIX: Final = "-runtime-snapshot"
SNAPSHOT_KEY: Final = "runtime"

BLOCKED: Final = "Blocked"
"""Type of the condition of a TrainJob whose JobSet cannot be created; removed when it is."""
SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED_REASON: Final = "Suspended"
SUSPENDED_MESSAGE: Final = "TrainJob is suspended"
RESUMED_REASON: Final = "Resumed"
RESUMED_MESSAGE: Final = "TrainJob is resumed"
DEADLINE_EXCEEDED_REASON: Final = "DeadlineExceeded"
DEADLINE_EXCEEDED_MESSAGE: Final = "TrainJob exceeded its active deadline"
MOST_JOBS: Final = 100
"""Entries of a TrainJob's status.jobsStatus, upstream's limit; so replicatedJobs of a runtime."""
JOB_SET_MISSING_REASON: Final = "JobSetMissing"
JOB_SET_MISSING_MESSAGE: Final = (
    "the JobSet was deleted before its end was recorded; the TrainJob is not run a second time: delete and create it"
)
RUNTIME_NOT_SUPPORTED_REASON: Final = "TrainingRuntimeNotSupported"
RESOURCES_CREATION_FAILED: Final = "TrainJobResourcesCreationFailed"
POLICY_DENIED: Final = "PolicyDenied"
