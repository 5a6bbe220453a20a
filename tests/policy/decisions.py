"""A source of decisions without a policy server: one rule about queue annotations, and a record of what was asked."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard.checks.report.report import Report
from trainyard.policy.check.checker import Checker
from trainyard.policy.check.sources import read_sources
from trainyard.policy.check.world import CheckContext
from trainyard.policy.review import AdmissionContext
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.platform import PolicySettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack

QUEUE = "scheduling.volcano.sh/queue-name"
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
STACK = Path(__file__).parent.parent.parent / "stacks" / "Pulumi.local.yaml"
RULES = load_rules()


class Decisions:
    """Denies an annotation that names a queue which the namespace does not have."""

    def __init__(self, state: str = "deny") -> None:
        self.state = state
        self.asked: list[dict[str, Any]] = []
        self.documents: list[Mapping[str, Any]] = []

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.documents.append(documents)
        asked = [{**each, "params": documents["params"][each["params"]]} for each in documents["requests"]]
        self.asked += asked
        return [self._decision(request) for request in asked]

    def names(self) -> list[str]:
        """Return kind and name of what was asked about."""
        bodies = [request["request"]["object"] for request in self.asked]
        return [f"{body['kind']} {body['metadata']['name']}" for body in bodies]

    def _decision(self, request: Mapping[str, Any]) -> dict[str, Any]:
        allowed = (request["params"]["tenantPolicy"] or {}).get("queues", [])
        found = [
            self._finding(path, queue)
            for path, queue in queues(request["request"]["object"], "")
            if queue not in allowed
        ]
        lists: dict[str, list[Any]] = {
            "violations": [], "warnings": [], "audits": [], "undecided": [], "exempted": [],
        }  # fmt: skip
        lists[{"deny": "violations", "warn": "warnings", "audit": "audits"}[self.state]] = found
        return {"allowed": not lists["violations"], **lists}

    def _finding(self, path: str, queue: str) -> dict[str, Any]:
        return {
            "rule": "QUE-002",
            "severity": "error",
            "state": self.state,
            "path": path,
            "message": f"queue {queue} is foreign",
            "fix": "use your own",
        }


class WithoutParameters:
    """Denies every object, because the parameter objects of some rules are missing, and one for its queue."""

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return one decision per request."""
        lists: dict[str, list[Any]] = {"warnings": [], "audits": [], "undecided": [], "exempted": []}
        found = [
            _denial("QUE-001", "parameters", "Platform is missing"),
            _denial("TEN-001", "parameters", "TenantPolicy is missing"),
            _denial("QUE-002", "parameters", "TenantPolicy is missing"),
            _denial("TEN-008", "spec.schedulingGates", "adds a gate"),
        ]
        return [{"allowed": False, "violations": found, **lists} for _ in documents["requests"]]


def _denial(rule: str, path: str, message: str) -> dict[str, Any]:
    return {"rule": rule, "severity": "error", "state": "deny", "path": path, "message": message, "fix": "-"}


def queues(value: Any, path: str) -> list[tuple[str, str]]:
    """Return every queue annotation in an object."""
    if isinstance(value, list):
        return [each for index, item in enumerate(value) for each in queues(item, f"{path}[{index}]")]
    if not isinstance(value, dict):
        return []
    here = (value.get("annotations") or {}).get(QUEUE) if isinstance(value.get("annotations"), dict) else None
    own = [(f"{path}.annotations[{QUEUE}]".lstrip("."), here)] if here else []
    return own + [each for name, inner in value.items() for each in queues(inner, f"{path}.{name}".lstrip("."))]


def local_stack() -> StackSettings:
    return load_stack(STACK)


def admission_context(settings: StackSettings | None = None) -> AdmissionContext:
    policies = settings.policies if settings else PolicySettings()
    return AdmissionContext(policies, settings.exempt_namespaces if settings else ("kube-system",), NOW)


async def checked(
    *paths: Path,
    decisions: Decisions | None = None,
    settings: StackSettings | None = None,
    changed: frozenset[Path] | None = None,
) -> Report:
    """Check files by the fake source, for the local stack."""
    settings = settings or local_stack()
    sources = read_sources([str(path) for path in paths], stdin=str)
    checker = Checker(RULES, CheckContext(settings, sources.manifests), admission_context(settings))
    return await checker.check(sources, decisions or Decisions(), changed=changed)
