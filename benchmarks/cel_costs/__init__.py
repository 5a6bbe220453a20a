"""Costs of the admission policies, as the API server counts them when it evaluates an object.

The API server cancels an expression, and a policy as a whole, whose evaluation costs more than a limit, and rejects the
object. Costs depend on the object alone: they are the same on every machine.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.data import data_folder
from trainyard.local.cluster.go import find_go
from trainyard.policy.engines.vap.facts import PLATFORM_FACTS_NAMESPACE, platform_facts, tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL, admission_objects, policy_name
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.cases import load_world
from trainyard.settings.platform import PolicySettings

_PROGRAM = Path(__file__).parent / "main.go"
_MODULES = Path(data_folder("toolchain")) / "control-plane"
_NAMESPACE = "vision"


@dataclass(frozen=True)
class Limits:
    """Limits of the API server: of one expression, of all expressions of a policy, and of its match conditions."""

    expression: int
    policy: int
    conditions: int


@dataclass(frozen=True)
class Cost:
    """Cost of one policy for one object.

    Parameters
    ----------
    rule, name
        Id of the rule, and name of the object.
    total, conditions
        Cost of all expressions, and of the match conditions.
    dearest, expression
        Cost of the dearest expression, and its name.
    error
        Why the evaluation failed; empty if it did not.
    """

    rule: str
    name: str
    total: int
    conditions: int
    dearest: int
    expression: str
    error: str

    def share(self, limits: Limits) -> float:
        """Return the largest share of a limit that the evaluation takes."""
        return max(self.total / limits.policy, self.dearest / limits.expression, self.conditions / limits.conditions)


def costs(bodies: Mapping[str, Mapping[str, Any]]) -> tuple[Limits, list[Cost]]:
    """Return the costs of creating objects in a tenant's namespace, by every policy that matches.

    Parameters
    ----------
    bodies
        The objects, by a name.
    """
    rules = {policy_name(rule.id): rule for rule in load_rules() if rule.gate is EnforcementPoint.ADMISSION}
    policies = [each for each in _objects() if each["kind"] == "ValidatingAdmissionPolicy"]
    inputs = [
        {"name": name, "policies": list(_matching(body)), "variables": _variables(body)}
        for name, body in bodies.items()
    ]
    asked = json.dumps({"policies": policies, "inputs": inputs})
    done = subprocess.run([str(_program())], input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    answer = json.loads(done.stdout)
    found = [
        Cost(
            rules[each["policy"]].id, each["input"], each["total"], each["conditions"], each["dearest"],
            each["expression"], each.get("error", ""),
        )
        for each in answer["costs"]
    ]  # fmt: skip
    return Limits(**answer["limits"]), found


@functools.cache
def _objects() -> list[dict[str, Any]]:
    return admission_objects(load_rules(), PolicySettings(), ())


def _matching(body: Mapping[str, Any]) -> Iterator[str]:
    for rule in load_rules():
        if rule.gate is EnforcementPoint.ADMISSION and any(
            (match.api_version, match.kind) == (body["apiVersion"], body["kind"])
            and "CREATE" in match.operations
            and "/" not in match.resource
            for match in rule.matches
        ):
            yield policy_name(rule.id)


def _variables(body: Mapping[str, Any]) -> dict[str, Any]:
    world = load_world(data_folder("policies"))
    group, _, version = body["apiVersion"].rpartition("/")
    resource = {"group": group, "version": version, "resource": f"{body['kind'].lower()}s"}
    kind = {"group": group, "version": version, "kind": body["kind"]}
    labels = {TENANT_LABEL: "tenant", "kubernetes.io/metadata.name": _NAMESPACE}
    return {
        "object": {**body, "metadata": {**body["metadata"], "namespace": _NAMESPACE}},
        "oldObject": None,
        "request": {
            "uid": "0", "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": body["metadata"]["name"], "namespace": _NAMESPACE, "operation": "CREATE",
            "userInfo": {"username": "ann@example.com", "groups": ["system:authenticated"]}, "dryRun": False,
        },
        "namespaceObject": _namespace(_NAMESPACE, tenant_facts(world.tenant_policy), labels),
        "params": _namespace(PLATFORM_FACTS_NAMESPACE, platform_facts(world.platform), {}),
    }  # fmt: skip


def _namespace(name: str, facts: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels), "annotations": dict(facts)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {}}


@functools.cache
def _program() -> Path:
    """Return the program, built with the modules of the API server."""
    built = Path(tempfile.mkdtemp(prefix="cel-costs-")) / "cel_costs"
    atexit.register(shutil.rmtree, built.parent, ignore_errors=True)
    find_go().run(_MODULES, "build", "-o", str(built), str(_PROGRAM))
    return built
