"""Parts of an installation that a stack does not declare: they stay, and some run beside its programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from trainyard.api.constants import STACK_LABEL
from trainyard.kube import Object
from trainyard.live.takeover import Takeover, TakeoverAction, address_of

__all__ = ["namespaces_of", "remains"]

_SYSTEM = frozenset({"", "default", "kube-system", "kube-public", "kube-node-lease"})
_BUILT_IN = frozenset({("ServiceAccount", "default")})


def namespaces_of(bodies: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the namespaces that objects of an installation are in or refer to, without those of Kubernetes."""
    found = set()
    for body in bodies:
        found.add(body["metadata"].get("namespace") or "")
        found |= _referred(body)
    return found - _SYSTEM


def remains(
    parts: Iterable[Object], declared: Collection[tuple[str, str, str, str]], namespaces: Collection[str]
) -> list[Takeover]:
    """Return the parts of an installation that stay, those that run first.

    Parameters
    ----------
    parts
        Objects in the namespaces of the installation, and cluster-scoped ones.
    declared
        API version, kind, namespace and name of what the stack declares.
    namespaces
        Namespaces of the installation.
    """
    found = [each for body in parts for each in _remaining(body, declared, namespaces)]
    return sorted(found, key=lambda each: (not each.runs, each.kind, each.namespace, each.name))


def _remaining(
    body: Object, declared: Collection[tuple[str, str, str, str]], namespaces: Collection[str]
) -> Iterator[Takeover]:
    address, metadata = address_of(body), body["metadata"]
    namespace, name = address[2:]
    foreign = STACK_LABEL not in (metadata.get("labels") or {}) and not metadata.get("ownerReferences")
    inside = bool({namespace, *_referred(body)} & set(namespaces))
    if address in declared or not foreign or not inside or (body["kind"], name) in _BUILT_IN:
        return
    runs, reason = _effect(body)
    where = f" -n {namespace}" if namespace else ""
    yield Takeover(
        TakeoverAction.LEAVE,
        *address,
        uid=str(metadata.get("uid") or ""),
        reason=reason,
        fix=f"kubectl delete {body['kind'].lower()} {name}{where}",
        retained=True,
        runs=runs,
    )


def _effect(body: Object) -> tuple[bool, str]:
    """Return whether an object acts beside the stack, and how."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    match body["kind"]:
        case "Deployment" | "StatefulSet" if spec.get("replicas", 1) == 0:
            return False, "it has no replicas"
        case "Deployment" | "StatefulSet" | "DaemonSet":
            return True, "its pods run beside the programs of the stack"
        case "CronJob":
            return not spec.get("suspend"), "it is suspended" if spec.get("suspend") else "it starts further jobs"
        case "Job":
            ended = any(
                each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
                for each in status.get("conditions") or ()
            )
            return not ended, "it has ended" if ended else "its pods run beside the programs of the stack"
        case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
            servers = ", ".join(sorted(_services(body)))
            return True, f"the API server calls Service {servers} in addition to the webhooks of the stack"
        case "ClusterRoleBinding" | "RoleBinding":
            return False, f"it grants {body['roleRef']['kind']} {body['roleRef']['name']} to its subjects"
    return False, "no object of the stack uses it"


def _referred(body: Mapping[str, Any]) -> set[str]:
    """Return the namespaces of the Services and ServiceAccounts that an object refers to."""
    services = {each.partition("/")[0] for each in _services(body)}
    subjects = body.get("subjects") or ()
    return services | {each.get("namespace") or "" for each in subjects if each.get("kind") == "ServiceAccount"}


def _services(body: Mapping[str, Any]) -> set[str]:
    configs = (webhook.get("clientConfig") or {} for webhook in body.get("webhooks") or ())
    named = (config["service"] for config in configs if config.get("service"))
    return {f"{each['namespace']}/{each['name']}" for each in named}
