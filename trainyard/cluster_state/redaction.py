"""Redaction of recorded objects: no secrets, and of pods of other tenants only what places and shares need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trainyard.api.constants import GROUP_NAME_ANNOTATION, QUEUE_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION
from trainyard.cluster_state.body_fields import Body, mapping, sequence, text
from trainyard.cluster_state.secret_texts import is_secret, without_secrets, without_values
from trainyard.scheduling.queues.queued_gangs import PREEMPTABLE

_ANNOTATIONS: Final = frozenset(
    {
        *(GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION, QUEUE_ANNOTATION, PREEMPTABLE),
        "trainyard.dev/remove-after",
    }
)
"""Annotations that are read."""
_CONTENTS: Final = frozenset(
    {
        *("env", "envFrom", "command", "args", "managedFields", "data", "stringData", "binaryData"),
        *("httpHeaders", "volumeAttributes", "caBundle"),
    }
)
_AMOUNTS: Final = ("requests", "limits", "allocatable", "capacity")
_WHOLE: Final = frozenset({"nodeSelector", "matchLabels", *_AMOUNTS})
"""Maps of which each key counts, whatever its name."""
_LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    "flexVolume": frozenset({"options"}),
    "httpGet": frozenset({"path"}),
    "terminated": frozenset({"message"}),  # the last lines of a log
}
"""Fields that are left out, by the field that has them."""
_QUOTES: Final = r"(?:(?:Invalid|Unsupported|Duplicate) value|Not found|Too long): "
_QUOTED_OBJECT: Final = re.compile(rf"({_QUOTES})[&*\w.\[\]]*[\[{{].*?(: field is immutable)?$", re.DOTALL)
"""An object that the API server quotes in an error, with all that it contains."""
_QUOTED: Final = re.compile(f": {_QUOTES}")
_FIELDS: Final = re.compile(r"\b(?:env|command|args)\b")
"""Fields whose values are not quoted."""
_HOOK: Final = re.compile(r"((?:Exec lifecycle hook|PostStartHook failed|PreStopHook failed)\b).*", re.DOTALL)
_PROBE: Final = re.compile(
    r"((?:Liveness|Readiness|Startup) probe (?:\w+|errored and resulted in \w+ state): )"
    r"(?!Get \"|HTTP probe failed|dial tcp|command timed out).*",
    re.DOTALL,
)
_NAMED: Final = (
    r"""["`]([\w./-]{1,64})["`](?::(?: stat \2:)? (?:executable file|no such file|permission denied)| not found)\b"""
)
"""What the kubelet says of a program that is a mere name, which stays."""
_PROGRAM: Final = re.compile(
    rf"(\bexec: |\bexecutable file (?=`))(?!{_NAMED}).*?"
    r"(?:(: (?:executable file not found|no such file or directory|permission denied))\b.*|`( not found)\b.*)?$",
    re.DOTALL,
)
_MOUNT: Final = re.compile(r"(Mounting arguments: ).*?(\nOutput: .*)?$", re.DOTALL)
"""Commands and output of containers, and options of mounts, in texts of the kubelet."""
_METADATA: Final = ("name", "namespace", "creationTimestamp", "deletionTimestamp")
_POD_SPEC: Final = ("nodeName", "priorityClassName", "preemptionPolicy")
_OWNER: Final = ("apiVersion", "kind", "name", "controller")


def redacted(body: Body) -> dict[str, Any]:
    """Return an object without what may be secret.

    Environment, commands, data, managed fields, log lines, queries of addresses and annotations that nothing reads are
    removed, also where a message quotes them. Names of environment variables, volumes and Secrets are kept; values are
    not.
    """
    return _mapping(body, is_node=body.get("kind") == "Node")


def reduced_pod(pod: Body) -> dict[str, Any]:
    """Return what others may see of a pod: what it occupies, in which gang, and whether it can be evicted."""
    metadata, spec = mapping(pod, "metadata"), mapping(pod, "spec")
    own: dict[str, Any] = {name: metadata[name] for name in _METADATA if isinstance(metadata.get(name), str)}
    owners = sequence(metadata, "ownerReferences")
    for name in ("annotations", "labels"):
        kept = {key: value for key, value in mapping(metadata, name).items() if key in _ANNOTATIONS}
        own |= {name: kept} if kept else {}
    if owners:
        own["ownerReferences"] = [{key: each[key] for key in _OWNER if key in each} for each in owners]
    found: dict[str, Any] = {name: spec[name] for name in _POD_SPEC if isinstance(spec.get(name), str)}
    for name in ("containers", "initContainers"):
        if containers := sequence(spec, name):
            found[name] = [_container(each) for each in containers]
    if gates := sequence(spec, "schedulingGates"):
        found["schedulingGates"] = [{"name": text(each, "name")} for each in gates]
    if overhead := mapping(spec, "overhead"):
        found["overhead"] = dict(overhead)
    api = {name: pod.get(name) for name in ("apiVersion", "kind")}
    return {**api, "metadata": own, "spec": found, "status": {"phase": text(pod, "status", "phase")}}


def _container(container: Body) -> dict[str, Any]:
    requests = mapping(container, "resources", "requests")
    policy = text(container, "restartPolicy")
    found: dict[str, Any] = {"resources": {"requests": dict(requests)}} if requests else {}
    return {**found, "restartPolicy": policy} if policy else found


def _mapping(body: Mapping[str, Any], *, above: str = "", is_node: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {}
    left_out = _LEFT_OUT.get(above, frozenset())
    for key, value in body.items():
        if key in left_out:
            continue
        if key == "annotations" and isinstance(value, Mapping):
            result[key] = {name: each for name, each in value.items() if name in _ANNOTATIONS}
        elif key == "labels" and isinstance(value, Mapping):
            result[key] = {name: each for name, each in value.items() if is_node or not is_secret(name)}
        elif key in _WHOLE and isinstance(value, Mapping):
            result[key] = dict(value)
        elif key == "env" and isinstance(value, list):
            result[key] = [{"name": each.get("name")} for each in value if isinstance(each, Mapping)]
        elif key == "plugins" and isinstance(value, Mapping):
            result[key] = {name: [] for name in value}  # Their arguments can be keys.
        elif type(value) is str and is_secret(key):
            continue
        elif key not in _CONTENTS:
            result[key] = _value(value, key, is_node)
    return result


def _value(value: Any, above: str, is_node: bool) -> Any:
    if type(value) is dict:
        return _mapping(value, above=above, is_node=is_node)
    if type(value) is list:
        if all(type(each) is str for each in value):
            return without_values(value)
        return [_value(each, above, is_node) for each in value]
    if type(value) is str:
        return without_secrets(_message(value) if above == "message" else value)
    return value


def _message(value: str) -> str:
    """Return a message without what it quotes of an object, a command or an output."""
    value = _without_quoted_values(_QUOTED_OBJECT.sub(r"\1…\2", value))
    if "exec" in value:
        value = _PROGRAM.sub(r"\1…\3\4", value)
    if "Mounting" in value:
        value = _MOUNT.sub(r"\1…\2", value)
    if "Hook" in value or "hook" in value:
        value = _HOOK.sub(r"\1 …", value)
    return _PROBE.sub(r"\1…", value) if " probe " in value else value


def _without_quoted_values(message: str) -> str:
    """Return a message up to the value of a field that is not quoted."""
    end = 0
    for quoted in _QUOTED.finditer(message):
        field = message[end : quoted.start()].split()[-1:]
        if field and _FIELDS.search(field[0]):
            return f"{message[: quoted.end()]}…"
        end = quoted.end()
    return message
