"""Queues and HyperNodes on a cluster whose Volcano, JobSet and trainer have another owner."""

import pulumi
from trainyard.components.training_platform import TrainingPlatform, TrainingPlatformArgs

config = pulumi.Config()
args = TrainingPlatformArgs(
    kubeconfig=config.require("kubeconfig"),
    context=config.require("context"),
    components=["queues", "topology"],
    settings={
        "fabric": {"tierNames": ["rack"], "domains": [{"name": "rack-a", "nodes": ["gpu-1", "gpu-2"]}]},
        "queues": {"vision": {"deserved": {"nvidia.com/gpu": "16"}}},
    },
)
platform = TrainingPlatform("training", args)
pulumi.export("queues", platform.queue_names)
