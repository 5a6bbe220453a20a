"""Parse Volcano Queue manifests to a tree; what the API server rejects or drops becomes a finding.

An invalid queue or field does not hide findings of the others. Upstream source: the CustomResourceDefinition of
``queues.scheduling.volcano.sh``, the same in Volcano 1.14.1 and 1.15.1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from trainyard import quantity
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.documents import objects
from trainyard.manifests.loader import load_all
from trainyard.scheduling.queues.hierarchy_annotations import old_tree
from trainyard.scheduling.queues.paths import ManifestPaths
from trainyard.scheduling.queues.queue import ROOT, Queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.settings.tenancy import NodeGroups, QueueAffinity

_API_VERSION = "scheduling.volcano.sh/v1beta1"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_QUANTITY = re.compile(rf"[+-]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?")
_MAX_NAME, _MAX_LABEL = 253, 63
_FIELDS: dict[str, tuple[type, str]] = {
    "affinity": (dict, "a mapping"),
    "capability": (dict, "a mapping"),
    "dequeueStrategy": (str, "fifo or traverse"),
    "deserved": (dict, "a mapping"),
    "extendClusters": (list, "a list"),
    "guarantee": (dict, "a mapping"),
    "parent": (str, "text"),
    "priority": (int, "a whole number"),
    "reclaimable": (bool, "true or false"),
    "type": (str, "text"),
    "weight": (int, "a whole number"),
}
_BOUNDS = {"priority": (0, 2**31 - 1), "weight": (0, 65535)}
_GROUPS = ("nodeGroupAffinity", "nodeGroupAntiAffinity")
_TERMS = {
    "required": "requiredDuringSchedulingIgnoredDuringExecution",
    "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
}


@dataclass
class QueueManifests:
    """Parsed Queue manifests.

    Parameters
    ----------
    queues
        Queues by name; ``default`` if it is declared, never ``root``.
    root
        ``root``, if it is declared.
    findings
        What the API server would reject or drop.
    """

    queues: dict[str, Queue] = field(default_factory=dict)
    root: Queue | None = None
    findings: list[Finding] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Name of the source of each queue."""


def is_manifest(text: str, source: str) -> bool:
    """Return whether a text is read as manifests; settings of a stack have a ``config`` section and no kind.

    Raises
    ------
    TrainyardError
        The text is not YAML.
    """
    first = next((body for body in load_all(text, source) if body is not None), None)
    return not isinstance(first, Mapping) or "config" not in first or "kind" in first


def read_manifests(texts: Mapping[str, str]) -> QueueManifests:
    """Read the queues of several files.

    Parameters
    ----------
    texts
        YAML or JSON by the name of its source: documents or Lists; objects of other kinds are ignored.

    Raises
    ------
    TrainyardError
        A text is not YAML or contains something other than a Kubernetes object, or no text contains a Queue.
    """
    result = QueueManifests()
    sources = result.sources
    for source, text in texts.items():
        for body in kubernetes_objects(source, text):
            if body.get("kind") != "Queue" or not str(body.get("apiVersion", "")).startswith("scheduling.volcano.sh/"):
                continue
            name, queue, findings = read_queue(body)
            result.findings += findings
            if name in sources:
                where = source if sources[name] == source else f"{sources[name]} and {source}"
                message = f"queue {name!r} is declared twice, in {where}"
                result.findings.append(
                    RULES.finding("metadata.name", message, "remove one", "queue-duplicate", object=name)
                )
            sources[name] = source
            if name == ROOT:
                result.root = queue
            else:
                result.queues[name] = queue
    if not sources:
        raise TrainyardError(f"No Queue in {', '.join(texts)}", fix=f"use manifests of {_API_VERSION}")
    return result


def read_queue(body: Mapping[str, Any]) -> tuple[str, Queue, list[Finding]]:
    """Return the name and the content of one Queue object, and what the API server would reject or drop of it."""
    reader = _Reader(*_metadata(body))
    if body.get("apiVersion") != _API_VERSION:
        reader.report("apiVersion", f"is {body.get('apiVersion')!r}, which is not served", f"write {_API_VERSION}")
    if (old := old_tree(body)) is not None:
        key, message, fix = old
        reader.report(f"metadata.annotations[{key}]", message, fix, "queue-hierarchy-annotation")
    queue = reader.queue(body.get("spec"))
    return reader.name, queue, reader.findings


def _metadata(body: Mapping[str, Any]) -> tuple[str, list[Finding]]:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        message = f"name {name!r} is not a valid Kubernetes name"
        fix = f"use lower-case letters, digits, - and ., at most {_MAX_NAME}"
        return str(name or ""), [RULES.finding("metadata.name", message, fix, "queue-name", object=str(name or ""))]
    if len(name) > _MAX_LABEL:
        message = f"queue {name!r} has a name of {len(name)} characters: pods of Volcano Jobs cannot be created in it"
        fix = f"use a name of at most {_MAX_LABEL}, and move its jobs and child queues to it"
        return name, [RULES.finding("metadata.name", message, fix, "queue-name-length", object=name)]
    return name, []


def kubernetes_objects(source: str, text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the Kubernetes objects of a text in YAML or JSON, Lists unpacked.

    Raises
    ------
    TrainyardError
        The text is not YAML or contains something else.
    """
    for body in objects(text, source):
        if not isinstance(body, Mapping) or not isinstance(body.get("kind"), str):
            raise TrainyardError(f"{source} contains something other than a Kubernetes object", fix="use manifests")
        yield body


@dataclass
class _Reader:
    name: str
    findings: list[Finding]
    paths: ManifestPaths = field(default_factory=ManifestPaths)

    def report(self, path: str, message: str, fix: str, rule: str = "queue-schema") -> None:
        self.findings.append(RULES.finding(path, f"queue {self.name!r}: {message}", fix, rule, object=self.name))

    def queue(self, spec: Any) -> Queue:
        if not isinstance(spec, Mapping):
            self.report(
                "spec", "spec is missing" if spec is None else "spec is not a mapping", "write spec: {parent: root}"
            )
            return Queue()
        self._known(spec, tuple(_FIELDS), "spec")
        values = {name: value for name in _FIELDS if (value := self._typed(spec, name)) is not None}
        if values.get("weight") == 0:
            self.report(
                "spec.weight", "weight is 0, which is replaced by 1", "write 1, or leave it out", "queue-weight-zero"
            )
            values["weight"] = 1
        guarantee = values.get("guarantee", {})
        self._known(guarantee, ("resource",), "spec.guarantee", "write guarantee: {resource: {…}}")
        return Queue(
            parent=values.get("parent", ROOT),
            weight=values.get("weight", 1),
            priority=values.get("priority", 0),
            reclaimable=values.get("reclaimable", True),
            affinity=self._affinity(values.get("affinity")),
            type=values.get("type"),
            deserved=self._amounts("deserved", values.get("deserved")),
            guarantee=self._amounts("guarantee", guarantee.get("resource")),
            capability=self._amounts("capability", values.get("capability")),
        )

    def _known(self, mapping: Mapping[Any, Any], names: Iterable[str], path: str, fix: str = "") -> None:
        known = tuple(names)
        for key in mapping:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                help_ = fix or (f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}")
                message = f"{path} has no field {key!r}: the API server drops it, and its limit is not enforced"
                self.report(f"{path}.{key}", message, help_, "queue-field-unknown")

    def _typed(self, spec: Mapping[str, Any], name: str) -> Any:
        value, (kind, wanted), path = spec.get(name), _FIELDS[name], f"spec.{name}"
        if value is None:
            return None
        fits: bool = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not fits:
            self.report(path, f"{name} is {value!r}, not {wanted}", f"write {wanted}")
            return None
        if name in _BOUNDS and not _BOUNDS[name][0] <= value <= _BOUNDS[name][1]:
            low, high = _BOUNDS[name]
            self.report(
                path, f"{name} is {value}, out of range", f"use {max(low, 1 if name == 'weight' else 0)} to {high}"
            )
            return None
        if name == "parent" and (len(value) > _MAX_NAME or not _NAME.fullmatch(value)):
            self.report(path, f"parent {value!r} is not a valid queue name", "write root or the name of a queue")
            return None
        if name == "type" and len(value) > _MAX_NAME:
            self.report(path, f"type has {len(value)} characters", f"use at most {_MAX_NAME}")
        if name == "dequeueStrategy" and value not in ("fifo", "traverse"):
            self.report(path, f"dequeueStrategy is {value!r}", "write fifo or traverse")
        return value

    def _amounts(self, kind: str, values: Any) -> dict[str, str]:
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            self.report(self.paths.of(self.name, kind), f"{kind} is not a mapping", "write resource: amount lines")
            return {}
        result = {}
        for resource, value in values.items():
            amount = self._amount(kind, str(resource), value)
            if amount is not None:
                result[str(resource)] = amount
        return result

    def _amount(self, kind: str, resource: str, value: Any) -> str | None:
        path = self.paths.of(self.name, kind, resource)
        if value is None:
            message = f"{kind} of {resource} has no value: the API server drops it, and the resource is not limited"
            self.report(path, message, "write an amount, or remove the line", "queue-amount-null")
            return None
        if isinstance(value, float):
            message = f"{kind} of {resource} is {value!r} without quotes, which the API server rejects"
            self.report(path, message, f'write "{value!r}" with quotes')
            return None
        text = str(value)
        if isinstance(value, bool) or not isinstance(value, int | str) or not _QUANTITY.fullmatch(text):
            self.report(
                path, f"{kind} of {resource} is {value!r}, not a quantity", "write for instance 8, 500m or 512Gi"
            )
            return None
        try:
            amount = quantity.parse(text)
        except ValueError:
            self.report(path, f"{kind} of {resource} is {text}, which is out of range", "write a smaller amount")
            return None
        if amount < 0:
            message = f"{kind} of {resource} is {text}, which is negative"
            self.report(path, message, "write 0 or more", "queue-amount-negative")
            return None
        return text

    def _affinity(self, value: Mapping[str, Any] | None) -> QueueAffinity | None:
        if value is None:
            return None
        self._known(value, _GROUPS, "spec.affinity")
        groups = {}
        for field_ in _GROUPS:
            terms, path = value.get(field_), f"spec.affinity.{field_}"
            if terms is None:
                continue
            if not isinstance(terms, Mapping):
                self.report(
                    path, f"{field_} is not a mapping", "write requiredDuringSchedulingIgnoredDuringExecution: […]"
                )
                continue
            self._known(terms, _TERMS.values(), path)
            try:
                groups[field_] = NodeGroups.model_validate(
                    {name: terms[term] for name, term in _TERMS.items() if terms.get(term) is not None}
                )
            except ValidationError:
                self.report(path, f"{field_} must contain lists of names", "write a list of node group names")
        return QueueAffinity.model_validate(groups)
