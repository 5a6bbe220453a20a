"""Small trees for tests, from settings or plain queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.capacity import Capacity
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.units import compile_queues
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack
from trainyard.settings.tenancy import QueueSettings

GPU = "nvidia.com/gpu"
CAPACITY = {GPU: "64", "cpu": "768", "memory": "8Ti", "pods": "880"}
NODE = {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}


def tree(**queues: dict[str, Any]) -> dict[str, Queue]:
    """Return queues from settings whose amounts are plain."""
    settings = {name: QueueSettings.model_validate(values) for name, values in queues.items()}
    return dict(compile_queues(settings, Capacity()).queues)


def stack(queues: dict[str, Any], tenants: dict[str, Any] | None = None, nodes: int = 8, **more: Any) -> StackSettings:
    """Return a stack with nodes of eight GPUs."""
    fabric = {"tierNames": ["rack"], "domains": [{"name": "r", "nodes": nodes}], "nodeShape": {"capacity": NODE}}
    values = {"cluster": {"provider": "embedded"}, "queues": queues, "tenants": tenants or {}, "fabric": fabric}
    return parse_stack({**values, **more}, source="test")


def rules(findings: Iterable[Finding]) -> set[str | None]:
    """Return the rules of findings."""
    return {finding.rule for finding in findings}


def gpus(amount: str | int) -> dict[str, str]:
    """Return an amount of GPUs."""
    return {GPU: str(amount)}
