"""Exemptions on a real API server: each ends by the server's clock, however long ago the last `up` was."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support import LiveCluster, awaited, require
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.platform import PolicySettings

pytestmark = pytest.mark.cluster

LAST_UP = datetime.date(2020, 1, 1)
ENDS = {"held": "2199-01-01", "lapsed": "2020-02-01"}
DENIED = "ESC-001"
EARLIER = "2020-01-15T00:00:00Z"


@pytest.fixture(scope="module")
def server(cluster: LiveCluster) -> Iterator[LiveCluster]:
    """A control plane whose last `up` was before one of two exemptions ended; each namespace has an earlier object."""
    exemptions = [
        {"rule": DENIED, "namespace": name, "owner": "ann", "reason": "a test", "expires": day}
        for name, day in ENDS.items()
    ]
    settings = PolicySettings.model_validate({"exemptions": exemptions})
    rules = [rule for rule in load_rules() if rule.id == DENIED]
    policies = admission_objects(rules, settings, (), today=LAST_UP)
    labels = {"trainyard.dev/tenant": "true"}
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name in (*ENDS, "other")
    ]
    text = "\n---\n".join(map(json.dumps, namespaces))
    require(cluster.kubectl("apply", "-f", "-", stdin=text))
    for name in ENDS:
        require(apply(cluster, name, "earlier"))
    made = "\n---\n".join(map(json.dumps, policies))
    require(cluster.kubectl("apply", "-f", "-", stdin=made))
    awaited("the policy", lambda: DENIED in apply(cluster, "other", "probe", "--dry-run=server").stderr)
    yield cluster
    require(cluster.kubectl("delete", "-f", "-", stdin=made))
    require(cluster.kubectl("delete", "--wait=false", "-f", "-", stdin=text))


def deployment(namespace: str, name: str, **metadata: Any) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "a", "image": "registry.example/a:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"hostNetwork": True, "containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def apply(cluster: LiveCluster, namespace: str, name: str, *options: str, **metadata: Any) -> CompletedProcess[str]:
    text = json.dumps(deployment(namespace, name, **metadata))
    return cluster.kubectl("create", *options, "-f", "-", stdin=text)


def patch(cluster: LiveCluster, namespace: str, **metadata: Any) -> CompletedProcess[str]:
    body = {"metadata": metadata, "spec": {"template": {"metadata": {"annotations": {"note": "changed"}}}}}
    command = ("patch", "deployment", "earlier", "-n", namespace, "--type=merge", "--dry-run=server")
    return cluster.kubectl(*command, "-p", json.dumps(body))


FIELDS = {"manager": "other", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1"}
BACKDATED = {"managedFields": [{**FIELDS, "time": EARLIER, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}
CLAIMS: list[dict[str, Any]] = [{}, {"creationTimestamp": EARLIER}, BACKDATED, {"managedFields": [{}]}]


@pytest.mark.parametrize("claim", CLAIMS, ids=["nothing", "creation", "fields", "no fields"])
def test_an_expired_exemption_does_not_hold_for_new_objects(server: LiveCluster, claim: dict[str, Any]) -> None:
    assert DENIED in apply(server, "lapsed", "new", "--dry-run=server", **claim).stderr
    require(apply(server, "held", "new", "--dry-run=server", **claim))


@pytest.mark.parametrize("claim", [{}, BACKDATED, {"managedFields": [{}]}], ids=["nothing", "fields", "no fields"])
def test_an_expired_exemption_does_not_hold_for_updates(server: LiveCluster, claim: dict[str, Any]) -> None:
    assert DENIED in patch(server, "lapsed", **claim).stderr


def test_an_exemption_holds_for_updates_until_it_expires(server: LiveCluster) -> None:
    require(patch(server, "held"))


def test_an_update_without_a_time_is_not_exempt(server: LiveCluster) -> None:
    assert DENIED in patch(server, "held", managedFields=[{}]).stderr
