"""Parts of an installation that a stack does not declare: they stay, and some run beside its programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainyard.api.constants import STACK_LABEL
from trainyard.kube.resource import Object
from trainyard.platform.takeover.takeover import Takeover, TakeoverAction, address_of

_SYSTEM = frozenset({"", "default", "kube-system", "kube-public", "kube-node-lease"})
_BUILT_IN = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})
_CLUSTER_ROLE = "ClusterRole"
_BOOTSTRAPPING, _TOKEN = "kubernetes.io/bootstrapping", "kubernetes.io/service-account.name"
_REFERENCES = {"Secret": ("secretKeyRef", "secretRef"), "ConfigMap": ("configMapKeyRef", "configMapRef")}


def namespaces_of(bodies: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the namespaces that objects of an installation are in or refer to, without those of Kubernetes."""
    found = set()
    for body in bodies:
        found.add(body["metadata"].get("namespace") or "")
        found |= _referred(body)
    return found - _SYSTEM


def remains(
    parts: Sequence[Object],
    declared: Collection[tuple[str, str, str, str]],
    namespaces: Collection[str],
    *,
    used: Collection[tuple[str, str, str]] = (),
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
    used
        Kind, namespace and name of Secrets and ConfigMaps that programs of the stack use without declaring them.
    """
    bindings = [each for each in parts if "roleRef" in each and _is_inside(each, namespaces)]
    roles = {each["roleRef"]["name"] for each in bindings if each["roleRef"]["kind"] == _CLUSTER_ROLE}
    found = [
        each
        for body in parts
        if (body["kind"], *address_of(body)[2:]) not in used
        for each in _remaining(body, declared, namespaces, roles)
    ]
    return sorted(found, key=lambda each: (not each.runs, each.kind, each.namespace, each.name))


def used_by(body: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of the Secrets and ConfigMaps that the pods of a program use."""
    pod = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
    namespace, names = body["metadata"].get("namespace") or "", set[tuple[str, str]]()
    names |= {("Secret", each["name"]) for each in pod.get("imagePullSecrets") or ()}
    volumes = pod.get("volumes") or ()
    for source in (
        *volumes,
        *(each for volume in volumes for each in (volume.get("projected") or {}).get("sources", ())),
    ):
        if secret := source.get("secret"):
            names.add(("Secret", secret.get("secretName") or secret["name"]))
        if configuration := source.get("configMap"):
            names.add(("ConfigMap", configuration["name"]))
    for container in (*(pod.get("containers") or ()), *(pod.get("initContainers") or ())):
        references = [each.get("valueFrom") or {} for each in container.get("env") or ()]
        for reference in (*references, *(container.get("envFrom") or ())):
            for kind, keys in _REFERENCES.items():
                names |= {(kind, reference[key]["name"]) for key in keys if key in reference}
    return {(kind, namespace, name) for kind, name in names}


def _is_inside(body: Mapping[str, Any], namespaces: Collection[str]) -> bool:
    """Return whether an object is in one of some namespaces, or refers to one."""
    return bool({body["metadata"].get("namespace") or "", *_referred(body)} & set(namespaces))


def _remaining(
    body: Object,
    declared: Collection[tuple[str, str, str, str]],
    namespaces: Collection[str],
    roles: Collection[str],
) -> Iterator[Takeover]:
    address, metadata = address_of(body), body["metadata"]
    namespace, name = address[2:]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    foreign = STACK_LABEL not in labels and not metadata.get("ownerReferences")
    # Those of Kubernetes, tokens, and the records of Helm, which have a way of their own.
    foreign = foreign and _BOOTSTRAPPING not in labels and _TOKEN not in annotations and labels.get("owner") != "helm"
    inside = name in roles if body["kind"] == _CLUSTER_ROLE else _is_inside(body, namespaces)
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
        case "HorizontalPodAutoscaler":
            target = spec.get("scaleTargetRef") or {}
            return True, f"it changes the replicas of {target.get('kind')} {target.get('name')}"
        case "NetworkPolicy":
            return True, "it limits the connections of the pods that it selects"
        case "PodDisruptionBudget":
            return True, "it limits the evictions of the pods that it selects"
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
