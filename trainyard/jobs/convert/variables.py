"""Environment variables of the legacy operator: set for programs that read them, and noted if a command names them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import COMPLETION_INDEX_LABEL, JOB_COMPLETION_INDEX_FIELD
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.part import Part, written_variables
from trainyard.jobs.convert.source import LegacySource, parts_of, texts_in
from trainyard.jobs.render.pod_editing import field_ref_env, prepend_env

GLOBAL_INDEX_FIELD: Final = "metadata.labels['jobset.sigs.k8s.io/job-global-index']"
"""Pod field with the index of its Job among all Jobs of the JobSet."""

_NAMING: Final = re.compile(r"^(?:name|image)$|Name$")
_LABELS: Final = frozenset(("labels", "matchLabels", "matchExpressions", "nodeSelector", "selector"))
_SPLITS: Final = re.compile(r"(?i)\bhostname\b(?:(?!\bhostname\b)[^;&|\n])*+\|\s*(?:cut|awk|sed)\b")


@dataclass(frozen=True)
class Variable:
    """A variable of the legacy operator.

    Parameters
    ----------
    name
        Name of the variable.
    entry
        Environment entry for any container.
    reference
        Value for the training container: a reference to a variable that the framework sets there.
    """

    name: str
    entry: Body
    reference: str | None = None

    def for_container(self, container: Body, part: Part) -> Body:
        """Return the environment entry of a container."""
        if self.reference is not None and part.trains and container["name"] == part.main:
            return {"name": self.name, "value": self.reference}
        return self.entry


def literal(name: str, value: str | int) -> Variable:
    """Return a variable with a constant value."""
    return Variable(name, {"name": name, "value": str(value)})


UNBUFFERED: Final = literal("PYTHONUNBUFFERED", 1)
"""Python's output at once in the log, as the training operator sets it except for TensorFlow and MPI."""


def indexed(name: str, field: str = JOB_COMPLETION_INDEX_FIELD) -> Variable:
    """Return a variable with the index of the pod."""
    return Variable(name, field_ref_env(name, field))


def referred(variable: Variable, reference: str) -> Variable:
    """Return a variable that references one of the framework's in the training container."""
    return Variable(variable.name, variable.entry, f"$({reference})")


def set_variables(source: LegacySource, part: Part, variables: Sequence[Variable], *, always: bool) -> None:
    """Set variables in the containers that read them.

    Parameters
    ----------
    always
        Whether to assume that the main container's program reads them, even if its command does not name them.
    """
    for container in part.containers:
        text = _text(container)
        given: list[Body] = []
        for variable in variables:
            named = _word(variable.name).search(text) is not None
            if not named and not (always and container["name"] == part.main):
                continue
            entry = variable.for_container(container, part)
            _note_replaced(source, part, container, entry)
            given.append(entry)
            if named:
                value = entry.get("value", "the index of the pod")
                source.notes.append(
                    FieldFinding.of(
                        f"{part.path}.spec.containers[{container['name']}]",
                        variable.name,
                        Fidelity.LOSSLESS,
                        f"names {variable.name}, which is set to {value}",
                    )
                )
        if given:
            prepend_env(container, given)


def set_first(part: Part, variables: Iterable[Variable]) -> None:
    """Prepend variables in the main container if no framework sets them."""
    prepend_env(part.container, [variable.entry for variable in variables])


def mentions(part: Part, text: str) -> bool:
    """Return whether any container of a part contains a text."""
    return any(text in _text(container) for container in part.containers)


def words_of(container: Body) -> str:
    """Return command and arguments of a container as one text."""
    return " ".join(str(word) for word in [*container.get("command", ()), *container.get("args", ())])


def note_legacy_hosts(source: LegacySource, part: Part, old: Iterable[str], new: str, *, what: str = "host") -> None:
    """Note references to host names of the legacy job, which no longer exist.

    Parameters
    ----------
    old
        The legacy names: whole ones, beginnings that end in a hyphen before a number, and ends that begin with one.
    new
        Name of the first new host.
    what
        Noun for the message.
    """
    old = list(old)
    if what == "host" and not new.startswith("$"):
        job = source.peek("metadata.name")
        source.hosts |= {f"{job}{name}" if name.startswith("-") else name: new for name in old}
    if any(name.endswith("-") for name in old):
        _note_pod_names(source, part, new)
    texts = [text for _, text in texts_with_hosts(source.peek(part.path))]
    for name in old:
        pattern = _name_of(name, host=what == "host")
        if any(pattern.search(text) for text in texts):
            source.notes.append(
                FieldFinding.of(
                    f"{part.path}.spec.containers",
                    name,
                    Fidelity.LOST,
                    f"names the {what} {name}, which is not there any more",
                    f"use the variables of the framework, or names such as {new}",
                )
            )


def texts_with_hosts(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the texts of an object in which a host can stand, with their paths: not names, images and labels."""
    for path, text in texts_in(value):
        key = path[-1] if path else ""
        if text == key or (isinstance(key, str) and _NAMING.search(key)) or not _LABELS.isdisjoint(path):
            continue
        yield path, text


def _note_pod_names(source: LegacySource, part: Part, new: str) -> None:
    """Note where a pod reads its name, which was also its host name and ended in its index."""
    message = "ends in random letters: the name of a pod is no host name, and has no index at its end"
    fix = f"where a program uses it as one of them, use names such as {new}, and the label {COMPLETION_INDEX_LABEL}"
    texts = list(texts_in(source.peek(part.path), parts_of(part.path)))
    for path, text in texts:
        if path[-1] == "fieldPath" and text == "metadata.name":
            source.changed(path, message, fix)
    if any(_SPLITS.search(text) for _, text in texts):
        message = "splits the host name, which has other parts: only the last one is still the index"
        source.notes.append(
            FieldFinding.of(
                f"{part.path}.spec.containers", new, Fidelity.CHANGED, message, f"names are now such as {new}"
            )
        )


def _note_replaced(source: LegacySource, part: Part, container: Body, entry: Body) -> None:
    """Note a variable of the job that is overridden, if the legacy template sets it."""
    own = next((each for each in container.get("env", ()) if each["name"] == entry["name"]), None)
    if own is None or own == entry:
        return
    for path, variable in written_variables(source, part):
        if variable == own:
            source.changed(path, "the old operator set it over the job's own value, and so it stays")


@lru_cache(maxsize=256)
def _name_of(name: str, *, host: bool) -> re.Pattern[str]:
    """Return a pattern that finds a name, but no text of which it is only a part."""
    # A host follows the two slashes of an address; a single slash begins a part of a path.
    before = r"[\w}]" if name.startswith("-") else r"(?<![\w.-])(?<![^/]/)" if host else r"(?<![\w.-])"
    after = r"(?:\d+(?![\w-])|[$%{<*(\[])" if name.endswith("-") else r"(?![\w-])"
    return re.compile(f"{before}{re.escape(name)}{after}")


def _text(container: Body) -> str:
    return "\n".join(text for _, text in texts_in(container))


@lru_cache(maxsize=256)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\b")
