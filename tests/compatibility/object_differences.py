"""Comparing objects: what counts as the same, and where two objects are not."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.compatibility.corpus.case import Body
from trainyard import quantity
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource

OURS = "ours"
"""Namespace in which our objects are tried; upstream's have one a case."""
_QUANTITIES = ("limits", "requests", "minResources")
_SERVER_FIELDS = ("managedFields", "uid", "resourceVersion", "creationTimestamp", "generation", "namespace")
_EMPTY = {"metadata", "resources", "limits", "requests", "command", "args", "env", "ports", "labels", "annotations"}
_EMPTY |= {"securityContext", "volumes", "volumeMounts", "nodeSelector", "tolerations", "minResources", "strategy"}
_EMPTY |= {"imagePullSecrets", "schedulingGates", "affinity", "serviceAccountName", "schedulerName"}
_ZERO = {"maxRestarts", "divisor"}
_FLUX = {
    "lead": r"^(?:mainHost=|lead=)\"?([\w-]+-0-0)\"?$",
    "hosts": r"host ?= ?\"([^\"]+)\"",
    "cores": r"--cores=([\d-]+)",
    "gpus": r"--gpus?=([\d-]+)",
    "nodes": r"(?:flags=\"|options=\().*-N (\d+)",
    "tasks": r"(?:flags=\"|options=\().*-n (\d+)",
    "gpus-of-a-task": r"(?:flags=\"|options=\().*-g (\d+)",
    "device": r"default_bind = \"tcp://(\w+):%p\"",
    "port": r"default_port = (\d+)",
    "queue": r"queue-policy = \"(\w+)\"",
}
_NONE = "(none)"
_PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets", "PodGroup": "podgroups", "JobSet": "jobsets"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


async def admitted(client: Client, body: Body, *, strict: bool = True) -> Body:
    """Return one of our objects as the API server would store it.

    Parameters
    ----------
    strict
        Whether a field that its kind does not have is an error.

    Raises
    ------
    ApiError
        The API server refuses it.
    """
    tried = copy.deepcopy(body)
    tried["metadata"]["namespace"] = OURS
    group, _, version = body["apiVersion"].rpartition("/")
    resource = Resource(group, version, _PLURALS[body["kind"]], body["kind"])
    query = {"dryRun": "All", "fieldValidation": "Strict" if strict else "Ignore"}
    return await client.request("POST", resource.path(namespace=OURS), resource=resource, body=tried, query=query)


async def defaulted_snapshot(client: Client, body: Body) -> Body:
    """Return a snapshot whose runtime has the defaults of its schema, as upstream reads it from the API server."""
    runtime = yaml.load(body["data"]["runtime"], Loader=_LOADER)
    plural = f"{runtime['kind'].lower()}s"
    resource = Resource("trainer.kubeflow.org", "v1alpha1", plural, runtime["kind"], namespaced=False)
    path = resource.path()
    if runtime["kind"] == "TrainingRuntime":
        runtime["metadata"]["namespace"] = OURS
        path = path.replace(f"/{plural}", f"/namespaces/{OURS}/{plural}")
    tried = {**runtime, "metadata": {**runtime["metadata"], "name": f"{OURS}-{runtime['metadata']['name']}"}}
    stored = await client.request("POST", path, resource=resource, body=tried, query={"dryRun": "All"})
    return {**body, "data": {"runtime": json.dumps({**runtime, "spec": stored["spec"]})}}


async def all_admitted(client: Client, objects: Mapping[str, Body]) -> dict[str, Body]:
    """Return our objects as the API server would store them; a refused one says why."""
    found = {}
    for key, body in objects.items():
        try:
            found[key] = await admitted(client, body)
            if key.endswith("-runtime-snapshot"):
                found[key] = await defaulted_snapshot(client, found[key])
        except ApiError as error:
            found[key] = {"refused": error.message}
    return found


def canonical(body: Body) -> Body:
    """Return an object without what only the server knows, and with everything that means the same in one notation."""
    result: Body = _plain(body)
    result.pop("status", None)
    metadata = result.get("metadata", {})
    for field in _SERVER_FIELDS:
        metadata.pop(field, None)
    if result.get("kind") == "ConfigMap" and metadata.get("name", "").endswith("-runtime-snapshot"):
        text = result["data"]["runtime"]
        result["data"] = {"runtime": _snapshot(text) if isinstance(text, str) else text}
    if result.get("kind") == "ConfigMap" and metadata.get("name", "").endswith("-flux-entrypoint"):
        result["data"] = _flux_facts(result["data"])
    if result.get("kind") == "Secret":
        result["data"] = dict.fromkeys(result.get("data", {}), "any")
    return result


def differences(theirs: Any, mine: Any, path: str = "") -> Iterator[str]:
    """Yield the places where two values differ, with both sides."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted(theirs.keys() | mine.keys()):
            yield from differences(theirs.get(key, _NONE), mine.get(key, _NONE), f"{path}.{key}" if path else key)
    elif isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        for index, (left, right) in enumerate(zip(theirs, mine, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif theirs != mine:
        yield f"{path}: upstream {json.dumps(theirs, default=str)[:600]}, ours {json.dumps(mine, default=str)[:600]}"


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if key in _QUANTITIES:
            return amounts(value)
        entries = {name: _plain(entry, name) for name, entry in value.items()}
        return {name: entry for name, entry in entries.items() if not _says_nothing(name, entry)}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return _amount(value) if key in ("sizeLimit", "divisor") else value


def amounts(values: Mapping[str, Any]) -> Body:
    """Return a resource list in canonical notation."""
    return {name: _amount(amount) for name, amount in values.items()}


def _says_nothing(name: str, value: Any) -> bool:
    """Whether a field means the same as none; Go programs write some of them and leave out others."""
    return (
        value is None
        or (name in _EMPTY and not value)
        or (name in _ZERO and value in (0, "0"))
        or (name == "value" and value == "")
    )


def _amount(value: Any) -> str:
    try:
        return str(quantity.parse(value))
    except ValueError:
        return str(value)


def _flux_facts(data: Body) -> Body:
    """Return what the scripts of Flux decide for this job; how they do it is each side's own."""
    if "files" in data:
        return data
    text = "\n".join(data.values())
    found = {name: re.findall(pattern, text, re.MULTILINE) for name, pattern in _FLUX.items()}
    return {"files": sorted(data), **{name: sorted(set(values)) for name, values in found.items()}}


def _snapshot(text: str) -> Body:
    runtime: Body = _plain(yaml.load(text, Loader=_LOADER))
    runtime["metadata"].pop("namespace", None)
    for job in (runtime.get("spec") or {}).get("template", {}).get("spec", {}).get("replicatedJobs", ()):
        if job.get("replicas") == 0:
            del job["replicas"]  # Go's types do not write it
    return runtime
