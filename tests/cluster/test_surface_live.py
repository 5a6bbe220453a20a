"""Attacks and legitimate uses of the ledger, sent to the live platform by users of a tenant as dry runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cluster.bypass_objects import TENANT
from tests.cluster.surface_requests import WIDE_GROUP, fault, one_per_level, send_all
from tests.policy.shipped import RULES
from tests.policy.surface_cases import surface_cases
from tests.support import LiveCluster, awaited
from tools.reference.surface_ledger import load_ledger
from trainyard.kube.blocking import BlockingSession

pytestmark = pytest.mark.cluster

LEVELS: Final = one_per_level(surface_cases(load_ledger(), {rule.id: rule for rule in RULES}))
ACCOUNTS: Final = f"/api/v1/namespaces/{TENANT}/serviceaccounts"
CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
GROUPS: Final = {
    "": ["replicationcontrollers"],
    "scheduling.volcano.sh": ["podgroups"],
    "bus.volcano.sh": ["commands"],
}
"""Kinds of the ledger that the ClusterRole edit does not contain on every cluster."""


@pytest.fixture(scope="module")
def session(platform: LiveCluster) -> Iterator[BlockingSession]:
    """A platform with the accounts and RuntimeClasses that values of the ledger name, and a user with wide rights."""
    objects: list[tuple[str, dict[str, Any]]] = [
        *(
            (ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", **named(name)})
            for name in ("operator", "trainer")
        ),
        *(
            (CLASSES, {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **named(name), "handler": name})
            for name in ("kata", "nvidia")
        ),
        *((roles(each["kind"]), each) for each in wide_rights()),
    ]
    with BlockingSession(platform.kubeconfig) as session:
        try:
            for path, body in objects:
                session.create(path, body)
            awaited("the rights of the editor", lambda: allowed(session))
            yield session
        finally:
            for path, body in objects:
                session.request("DELETE", f"{path}/{body['metadata']['name']}")


@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
def test_a_rule_of_the_entry_denies_each_attack_and_no_legitimate_use(
    session: BlockingSession, level: tuple[str, str]
) -> None:
    cases = LEVELS[level]
    faults = {each.name: fault(each, answer) for each, answer in zip(cases, send_all(session, cases), strict=True)}
    lines = [f"{name}: {text}" for name, text in faults.items() if text]
    assert not lines, "\n".join(lines)


def roles(kind: str) -> str:
    where = "" if kind.startswith("Cluster") else f"/namespaces/{TENANT}"
    return f"/apis/rbac.authorization.k8s.io/v1{where}/{kind.lower()}s"


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def wide_rights() -> Iterator[dict[str, Any]]:
    """Yield a role with the kinds beside edit, one for namespaces, and the bindings of all."""
    group, api = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [name], "resources": kinds, "verbs": ["create"]} for name, kinds in GROUPS.items()]
    yield {"apiVersion": api, "kind": "Role", **named(WIDE_GROUP), "rules": rules}
    namespaces = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}]
    yield {"apiVersion": api, "kind": "ClusterRole", **named(WIDE_GROUP), "rules": namespaces}
    subjects = [{"apiGroup": group, "kind": "Group", "name": WIDE_GROUP}]
    for kind, name in (("ClusterRole", "edit"), ("Role", WIDE_GROUP)):
        yield {
            "apiVersion": api,
            "kind": "RoleBinding",
            **named(f"{WIDE_GROUP}-{kind.lower()}"),
            "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": subjects,
        }
    yield {
        "apiVersion": api,
        "kind": "ClusterRoleBinding",
        **named(WIDE_GROUP),
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": WIDE_GROUP},
        "subjects": subjects,
    }


def allowed(session: BlockingSession) -> bool:
    """Return whether the API server knows both bindings."""
    return all(
        session.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "groups": [WIDE_GROUP],
                    "resourceAttributes": {"namespace": TENANT, "verb": "create", "group": group, "resource": resource},
                },
            },
        ).body["status"]["allowed"]
        for group, resource in (("apps", "deployments"), ("scheduling.volcano.sh", "podgroups"), ("", "namespaces"))
    )
