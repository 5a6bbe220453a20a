"""Takeover of objects that another owner created: one decision for each.

Server-side apply changes most objects in place. It cannot change immutable fields (the selector of a Deployment, the
role of a binding), and it merges lists: the containers of the former owner would stay beside those of the stack. Such
an object is deleted and created again, unless users have data in it or refer to it. A dry run of the API server shows
which of these cases it is. Everything here is pure; `takeover_reader` reads the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trainyard.api.constants import STACK_LABEL
from trainyard.kube.api_errors import ApiError
from trainyard.kube.resource import Object
from trainyard.scheduling.queues.hierarchy_annotations import old_tree

_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")

_PROGRAM_KINDS = frozenset(
    {
        *(("apps/v1", kind) for kind in ("Deployment", "DaemonSet", "ReplicaSet")),
        *((_RBAC, kind) for kind in ("RoleBinding", "ClusterRoleBinding")),
        *((_ADMISSION, f"{kind}WebhookConfiguration") for kind in ("Mutating", "Validating")),
        (_ADMISSION, "ValidatingAdmissionPolicyBinding"),
    }
)
"""Kinds that act, or grant what their program needs: without the programs of the stack they must not stay."""

_REPLACEABLE = _PROGRAM_KINDS | {
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    ("batch/v1", "Job"),
    (_ADMISSION, "ValidatingAdmissionPolicy"),
}
"""Kinds that hold no data of users: they may be deleted and created again."""

_IMMUTABLE = re.compile(
    r"immutable|may not (be )?change|cannot change|can ?not be (changed|updated)|updates to \w+ spec for fields other"
)
_FIELD = re.compile(r"(?:^|[\s(,]|(?<![\w\].])\[)([a-z][\w.\[\]]*+): (?:Invalid value|Forbidden|Required value)")
_DENIED = re.compile(r"admission webhook .* denied the request")
_UNREACHABLE = re.compile(r"failed calling webhook|field not declared in schema|no kind is registered")
"""Errors of the present installation, which the stack replaces, not of the object."""

_HELM_RELEASE, _HELM_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_GITOPS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
"""Tools that write an object again, by the annotation or label that they set on it."""
_GITOPS_MANAGERS = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
}
"""The same tools by their field managers: Argo CD before 3.0 sets no annotation of its own."""
_CLEARED = """--type=json -p '[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]'"""

_EFFECTIVE = frozenset(
    {
        *("namespaceSelector", "objectSelector", "matchConditions"),
        *("affinity", "hostNetwork", "initContainers", "nodeSelector", "runtimeClassName", "tolerations"),
        "topologySpreadConstraints",
    }
)
"""Fields of webhooks and pods that the API server leaves unset, and that limit what a program does or where."""

_SERVER_FIELDS = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"})
_DEPTH = 4
_SHOWN = 8


class TakeoverAction(StrEnum):
    """What `up` does with an object."""

    TAKE = "take"
    """Server-side apply changes it in place."""
    REPLACE = "replace"
    """It is deleted and created again."""
    LEAVE = "leave"
    """It is not declared by the stack; `up` does nothing with it."""
    REJECT = "reject"
    """It cannot be taken; `up` writes nothing."""


@dataclass(frozen=True)
class Observation:
    """An existing object, and the answer of the API server to a dry run of what the stack declares.

    Parameters
    ----------
    live
        The object.
    applied
        The object as it would become; None: the dry run failed.
    error
        Error of the dry run.
    creation_error
        Error of the dry run of a new object, for one that could be replaced; None: it can be created.
    releases
        Records of the Helm release that the object belongs to (``Secret sh.helm.release.v1.volcano.v1``).
    """

    live: Object
    applied: Object | None = None
    error: ApiError | None = None
    creation_error: ApiError | None = None
    releases: Sequence[str] = ()


@dataclass(frozen=True)
class Takeover:
    """Decision about one object.

    Parameters
    ----------
    action
        What `up` does with it.
    api_version, kind, namespace, name
        The object; the namespace is empty for cluster-scoped kinds.
    uid
        Its uid, a precondition of its deletion.
    reason
        Why it is replaced, left or rejected; for an object that is taken, what is not verified.
    fix
        What to do about it.
    fields
        Fields that change in an object that is taken.
    retained
        Whether `destroy` keeps it.
    runs
        Whether it runs, or acts, beside the programs of the stack.
    """

    action: TakeoverAction
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    reason: str = ""
    fix: str = ""
    fields: tuple[str, ...] = ()
    retained: bool = False
    runs: bool = False

    @property
    def object(self) -> str:
        """``Kind namespace/name``, or ``Kind name``."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "action": self.action.value,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "reason": self.reason,
            "fix": self.fix,
            "fields": list(self.fields),
            "retained": self.retained,
            "runs": self.runs,
        }


def decide(declared: Mapping[str, Any], seen: Observation, stack: str, *, after: Collection[str] = ()) -> Takeover:
    """Return what `up` does with an object that exists without the label of the stack.

    Parameters
    ----------
    declared
        The object as the stack declares it.
    seen
        The object as it exists, and the dry run.
    stack
        Value of the stack's label.
    after
        Kinds of objects that change before it. A webhook that compares it with one of its own kind (a queue with its
        parent) then denies a dry run that it would admit.
    """
    kind = (declared["apiVersion"], declared["kind"])
    for reason, fix in (*_owners(seen, stack), *_unserved_versions(declared, seen.live)):
        return _takeover(declared, seen.live, TakeoverAction.REJECT, reason=reason, fix=fix)
    if seen.error is not None:
        return _without_dry_run(declared, seen, seen.error, compared=declared["kind"] in after)
    applied = seen.applied or {}
    if is_replaceable(*kind) and (foreign := sorted(set(_foreign_entries(declared, applied)))):
        reason = f"{', '.join(foreign[:_SHOWN])} would stay beside those of the stack"
        return _takeover(declared, seen.live, TakeoverAction.REPLACE, reason=reason)
    fields = tuple(sorted(set(_changed(seen.live, applied))))
    reason, fix = _kept_forms(seen.live)
    return _taken(declared, seen.live, fields=fields, reason=reason, fix=fix)


def is_part_of_program(api_version: str, kind: str) -> bool:
    """Return whether objects of a kind act, or grant permissions to programs; `destroy` deletes these."""
    return (api_version, kind) in _PROGRAM_KINDS


def is_replaceable(api_version: str, kind: str) -> bool:
    """Return whether objects of a kind hold no data of users, so that they may be deleted and created again."""
    return (api_version, kind) in _REPLACEABLE


def address_of(body: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return API version, kind, namespace (empty for cluster-scoped kinds) and name."""
    metadata = body["metadata"]
    return body["apiVersion"], body["kind"], metadata.get("namespace") or "", metadata["name"]


def _kept_forms(live: Object) -> tuple[str, str]:
    """Return what a queue or HyperNode says in a form that the stack does not use, with what becomes of it."""
    if live["kind"] == "Queue" and (old := old_tree(live)) is not None:
        _, message, fix = old
        return f"{message}, stays on it", f"set parent in the stack's queues instead: {fix}"
    members = (live.get("spec") or {}).get("members") if live["kind"] == "HyperNode" else None
    if any((each.get("selector") or {}).get("labelMatch") is not None for each in members or ()):
        return (
            "its members by labelMatch become those that the stack declares",
            "compare both with `trainyard topology check`, or import them with `trainyard topology import`",
        )
    return "", ""


def _owners(seen: Observation, stack: str) -> Iterator[tuple[str, str]]:
    """Yield what still writes or deletes the object, with the fix."""
    metadata = seen.live["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if metadata.get("deletionTimestamp"):
        yield "it is being deleted", "wait until it is gone, then run the command again"
    for owner in metadata.get("ownerReferences") or ():
        by = f"{owner['kind']} {owner['name']}"
        yield f"it belongs to {by}, which rewrites it or is deleted with it", f"uninstall {by}, or remove the reference"
    if labels.get(STACK_LABEL, stack) != stack:
        other = labels[STACK_LABEL]
        yield (
            f"it belongs to stack {other}, whose next `up` rewrites it",
            f"remove it from stack {other}, or its label {STACK_LABEL} if that stack does not exist any more",
        )
    if seen.releases:
        release, home = annotations.get(_HELM_RELEASE), annotations.get(_HELM_NAMESPACE) or metadata.get("namespace")
        yield (
            f"it belongs to Helm release {home}/{release} ({', '.join(seen.releases)}), and `helm upgrade` or "
            "`helm uninstall` would rewrite or delete it",
            f"make Helm forget the release, which deletes none of its objects: kubectl delete secrets,configmaps "
            f"-n {home} -l owner=helm,name={release}",
        )
    yield from _gitops_tools(seen.live)


def _gitops_tools(live: Object) -> Iterator[tuple[str, str]]:
    """Yield each tool that applies the object, with what shows it and the removal of all of that."""
    metadata = live["metadata"]
    values = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    writers = {each.get("manager") for each in metadata.get("managedFields") or () if not each.get("subresource")}
    for tool in dict.fromkeys(_GITOPS.values()):
        keys = [key for key, owner in _GITOPS.items() if owner == tool and values.get(key)]
        managers = [name for name, owner in _GITOPS_MANAGERS.items() if owner == tool and name in writers]
        shown = [*(f"{key}: {values[key]}" for key in keys), *(f"field manager {name}" for name in managers)]
        steps = [f"remove {', '.join(keys)} from the object"] if keys else []
        if managers:
            where = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
            address = f"{live['kind'].lower()} {metadata['name']}{where}"
            steps.append(f"clear its field managers: kubectl patch {address} {_CLEARED}")
        if shown:
            yield (
                f"{tool} applies it ({', '.join(shown)}), and would rewrite it",
                f"remove it from {tool} without pruning, then {' and '.join(steps)}",
            )


def _unserved_versions(declared: Mapping[str, Any], live: Object) -> Iterator[tuple[str, str]]:
    if (declared["apiVersion"], declared["kind"]) != _CRD:
        return
    served = [each["name"] for each in declared["spec"]["versions"] if each.get("served")]
    stored = (live.get("status") or {}).get("storedVersions") or ()
    if lost := [version for version in stored if version not in served]:
        yield (
            f"objects are stored in version {', '.join(lost)}, and the declared definition serves {', '.join(served)}",
            "install a release that serves both, write every object again, and remove the former version from "
            "status.storedVersions",
        )


def _without_dry_run(declared: Mapping[str, Any], seen: Observation, error: ApiError, *, compared: bool) -> Takeover:
    message = " ".join(error.message.split())
    if compared and _DENIED.search(message):
        others = f"other objects of kind {declared['kind']} change before it"
        return _taken(declared, seen.live, reason=f"not verified, as {others}; now: {message[:300]}")
    if _UNREACHABLE.search(message):
        return _taken(declared, seen.live, reason=f"not verified, as the present installation fails: {message[:200]}")
    fields = ", ".join(dict.fromkeys(_FIELD.findall(message)))
    immutable = error.status == 422 and _IMMUTABLE.search(message) is not None
    replaceable = error.status == 422 and is_replaceable(declared["apiVersion"], declared["kind"])
    if replaceable and seen.creation_error is None:
        reason = f"immutable: {fields or message[:200]}" if immutable else f"cannot be merged: {message[:200]}"
        return _takeover(declared, seen.live, TakeoverAction.REPLACE, reason=reason)
    if replaceable or not immutable:
        cause = seen.creation_error or error
        message = " ".join(cause.message.split())
        fix = "use credentials with this permission" if cause.reason == "Forbidden" else "correct the cause"
        return _takeover(
            declared, seen.live, TakeoverAction.REJECT, reason=f"the API server rejects it: {message[:400]}", fix=fix
        )
    return _takeover(
        declared,
        seen.live,
        TakeoverAction.REJECT,
        reason=f"{fields or message[:200]} differs and is immutable, and objects of users depend on it",
        fix="set the existing value in the settings, or use another name",
    )


def _taken(declared: Mapping[str, Any], live: Object, **details: Any) -> Takeover:
    retained = not is_part_of_program(declared["apiVersion"], declared["kind"])
    return _takeover(declared, live, TakeoverAction.TAKE, retained=retained, **details)


def _takeover(declared: Mapping[str, Any], live: Object, action: TakeoverAction, **details: Any) -> Takeover:
    return Takeover(action, *address_of(declared), uid=str(live["metadata"].get("uid") or ""), **details)


def _foreign_entries(declared: Any, applied: Any, path: str = "") -> Iterator[str]:
    """Yield the named entries of lists, and effective fields, that a merge keeps although the stack declares none."""
    if isinstance(declared, Mapping) and isinstance(applied, Mapping):
        for key, value in declared.items():
            yield from _foreign_entries(value, applied.get(key), f"{path}.{key}" if path else key)
        for key in _EFFECTIVE & applied.keys() - declared.keys():
            if applied[key]:
                yield f"{path}.{key}" if path else key
    elif isinstance(declared, list) and isinstance(applied, list):
        wanted, found = _named(declared), _named(applied)
        for name in found if wanted else ():
            if name not in wanted:
                yield f"{path}[{name}]"
            else:
                yield from _foreign_entries(wanted[name], found[name], f"{path}[{name}]")


def _named(entries: list[Any]) -> dict[str, Any]:
    """Return the entries of a list by their key; empty if they have none."""
    found = {}
    for each in entries:
        if not isinstance(each, Mapping):
            return {}
        key = each.get("name") or each.get("port")
        if key is None:
            return {}
        found[str(key)] = each
    return found


def _changed(before: Any, after: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the paths of fields that differ, down to a fixed depth, without those that the server sets."""
    if before == after:
        return
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)) or depth == _DEPTH:
        yield path
        return
    for key in {**before, **after}:
        if not (key in _SERVER_FIELDS and path == "metadata") and not (key == "status" and not path):
            yield from _changed(before.get(key), after.get(key), f"{path}.{key}" if path else key, depth + 1)
