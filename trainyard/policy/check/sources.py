"""Objects to check: from files, folders, globs and standard input to single manifests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from trainyard.api.constants import GROUP, PLATFORM_API_VERSION, TRAIN_JOB, TRAINING_RUNTIME
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.documents import Document, Source, documents, in_namespace
from trainyard.manifests.files import Unread
from trainyard.manifests.files import read_sources as read_texts
from trainyard.manifests.nodes import InvalidYamlError
from trainyard.policy.engines.api_validator import REQUEST_LIMIT
from trainyard.policy.rules.admission_rule import AdmissionRule

_PLATFORM_GROUP: Final = PLATFORM_API_VERSION.partition("/")[0]
_NAMESPACED: Final = {(GROUP, TRAIN_JOB), (GROUP, TRAINING_RUNTIME), (_PLATFORM_GROUP, "TenantPolicy")}
"""Kinds that are read without a rule about them."""
_KUSTOMIZE: Final = "kustomize.config.k8s.io"
_COMMENT: Final = re.compile(r"\s#.*|\"[^\"]*\"|'[^']*'")
"""Comments and quoted text, which contain no actions of a template."""


@dataclass(frozen=True)
class Manifest:
    """One Kubernetes object of a source text.

    Parameters
    ----------
    source
        Its text.
    document
        Number of its YAML document in the text.
    items
        Positions in the Lists around it.
    body
        The object.
    """

    source: Source
    document: int
    items: tuple[int, ...]
    body: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata; empty if invalid."""
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

    @property
    def group(self) -> str:
        """The object's API group; empty for the core."""
        return str(self.body["apiVersion"]).rpartition("/")[0]

    @property
    def name(self) -> str:
        """The object's name, or its generateName followed by ``*``."""
        name, prefix = self.metadata.get("name"), self.metadata.get("generateName")
        return name if isinstance(name, str) else f"{prefix}*" if isinstance(prefix, str) else ""

    @property
    def namespace(self) -> str | None:
        """The object's namespace; None if unset."""
        namespace = self.metadata.get("namespace")
        return namespace if isinstance(namespace, str) and namespace else None

    @property
    def too_large(self) -> bool:
        """Whether the API server rejects the object for its size."""
        return len(orjson.dumps(self.body)) > REQUEST_LIMIT

    def line(self, path: str = "") -> int:
        """Return the line of the object, or of one of its fields."""
        return self.source.lines.line(self.document, self.items, path)


@dataclass(frozen=True)
class Sources:
    """Objects, errors and notes of reading.

    Parameters
    ----------
    manifests
        Objects in the order of files and documents.
    faults
        Findings about invalid files.
    notes
        What was skipped, and why.
    """

    manifests: tuple[Manifest, ...]
    faults: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Reading:
    manifests: list[Manifest] = field(default_factory=list)
    faults: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, source: Source, *, allow_no_objects: bool) -> None:
        manifests: list[Manifest] = []
        foreign: set[int] = set()
        fault = None
        try:
            for document in documents(source):
                if _is_list(document):
                    lists = Finding("", "has too many Lists inside each other", "write the objects themselves")
                    self.faults.append(replace(lists, file=source.name, line=document.line()))
                elif _is_object(document):
                    manifests.append(Manifest(source, document.number, document.items, document.body))
                else:
                    foreign.add(document.number)
        except InvalidYamlError as error:
            fault = error
        self.manifests += manifests
        for manifest in manifests:
            if manifest.too_large:
                large = Finding("", "is larger than 3 MiB, which the API server rejects", "shorten it")
                about = f"{manifest.kind} {manifest.name}"
                self.faults.append(replace(large, object=about, file=source.name, line=manifest.line()))
            if manifest.group == _KUSTOMIZE:
                self.notes.append(f"{source.name}: {manifest.kind} is not built; check the output of kustomize build")
        foreign -= {manifest.document for manifest in manifests}
        if fault and _is_template(source.text, fault):
            self._skip(source, "is a template; check its rendered output", allow_no_objects=allow_no_objects)
        elif fault:
            message = f"is not valid YAML: {fault.reason}"
            self.faults.append(Finding("", message, fault.fix, file=source.name, line=fault.line))
        elif not manifests:
            self._skip(source, "contains no Kubernetes object", allow_no_objects=allow_no_objects)
        elif foreign:
            are = "document is not a Kubernetes object" if len(foreign) == 1 else "documents are not Kubernetes objects"
            self.notes.append(f"{source.name}: {len(foreign)} {are}")

    def unread(self, found: Unread) -> None:
        if found.fix:
            self.faults.append(Finding("", found.reason, found.fix, file=found.name))
        else:
            self.notes.append(f"{found.name} {found.reason}: not searched")

    def _skip(self, source: Source, reason: str, *, allow_no_objects: bool) -> None:
        if source.explicit and not allow_no_objects:
            raise TrainyardError(
                f"{source.name} {reason}",
                fix="name files with Kubernetes objects, or add --allow-no-objects to skip such files",
            )
        self.notes.append(f"{source.name} {reason}: skipped")


def placed(sources: Sources, namespace: str | None, rules: Iterable[AdmissionRule]) -> Sources:
    """Return the objects with a namespace where a namespaced one names none; objects of unknown kinds are not placed.

    Parameters
    ----------
    namespace
        The namespace; None changes nothing.
    rules
        The rules, which name the scope of the kinds that they match.
    """
    if namespace is None:
        return sources
    namespaced = {(match.group, match.kind) for rule in rules for match in rule.matches if match.scope == "Namespaced"}
    namespaced |= _NAMESPACED
    manifests = tuple(
        replace(each, body=in_namespace(each.body, namespace)) if (each.group, each.kind) in namespaced else each
        for each in sources.manifests
    )
    return replace(sources, manifests=manifests)


def read_sources(paths: Sequence[str], *, stdin: Callable[[], str], allow_no_objects: bool = False) -> Sources:
    """Read all objects at the given paths.

    Parameters
    ----------
    paths
        Files, folders, globs; ``-`` for standard input.
    stdin
        Returns the text of standard input.
    allow_no_objects
        Whether to skip explicitly named files without objects.

    Raises
    ------
    TrainyardError
        A path does not exist, or contains no object.
    """
    reading = _Reading()
    for source in read_texts(paths, stdin=stdin):
        if isinstance(source, Unread):
            reading.unread(source)
        else:
            reading.add(source, allow_no_objects=allow_no_objects)
    return Sources(tuple(reading.manifests), tuple(reading.faults), tuple(reading.notes))


def _is_template(text: str, fault: InvalidYamlError) -> bool:
    """Return whether a fault is due to a template action: no YAML parser reads it, at the line of an action.

    kubectl would read other faults, such as a duplicate key, without a word.
    """
    lines = [line for line in text.split("\n")[: fault.line] if line.strip() and not line.lstrip().startswith("#")]
    return fault.syntax and any("{{" in _COMMENT.sub("", line) for line in lines[-2:])


def _is_list(document: Document) -> bool:
    """Return whether a List was not unpacked."""
    body = document.body
    kind = body.get("kind") if isinstance(body, dict) else None
    return isinstance(kind, str) and kind.endswith("List") and isinstance(body.get("items"), list)


def _is_object(document: Document) -> bool:
    body = document.body
    if not isinstance(body, dict):
        return False
    return all(isinstance(body.get(key), str) and body[key] for key in ("apiVersion", "kind"))
