"""The training platform on an existing cluster."""

import pulumi
from trainyard.components.training_platform import TrainingPlatform, TrainingPlatformArgs

config = pulumi.Config()
settings = {
    "fabric": {"tierNames": ["rack"], "domains": [{"name": "rack-a", "nodes": ["gpu-1", "gpu-2"]}]},
    "queues": {"vision": {"deserved": {"nvidia.com/gpu": "16"}}},
    "tenants": {"vision": {"queues": ["vision"], "roles": {"submit": ["vision-team"]}}},
}
args = TrainingPlatformArgs(
    kubeconfig=config.require("kubeconfig"),
    context=config.require("context"),
    settings=settings,
    images={"trainyard-controller": config.require("controllerImage")},
)
platform = TrainingPlatform("training", args)
pulumi.export("namespaces", platform.namespace_names)
pulumi.export("queues", platform.queue_names)
