"""Causes: what an explanation can find, declared with the text for the user, and grouped in families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainyard.checks.report.text import counted

if TYPE_CHECKING:
    from trainyard.insight.explain.job_state import JobState


@dataclass(frozen=True)
class Cause:
    """One reason why a job waits, is suspended or failed.

    Parameters
    ----------
    id
        Its identifier, which stays.
    title
        A noun phrase.
    looks_at
        The objects and fields that it reads.
    message, fix
        Texts for the user; names in braces are numbers, ``{pods:pod}`` one with its unit.
    example
        Numbers of an example.
    """

    id: str
    title: str
    looks_at: str
    message: str
    fix: str
    example: Mapping[str, Any] = field(default_factory=dict)

    def found(self, **numbers: Any) -> Found:
        """Return the cause with its numbers, as it was found."""
        return Found(self, numbers)


@dataclass(frozen=True)
class Found:
    """A cause that applies to a job.

    Parameters
    ----------
    cause
        The cause.
    numbers
        Its numbers: JSON values; amounts are Kubernetes quantities.
    """

    cause: Cause
    numbers: Mapping[str, Any]

    @property
    def message(self) -> str:
        """What is wrong, with the numbers."""
        return self.cause.message.format_map(_shown(self.numbers))

    @property
    def fix(self) -> str:
        """What to do."""
        return self.cause.fix.format_map(_shown(self.numbers))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"cause": self.cause.id, "message": self.message, "numbers": dict(self.numbers), "fix": self.fix}


class _Count(int):
    """A number that a text can write with its unit: ``{pods:pod}`` is 1 pod, or 2 pods."""

    def __format__(self, unit: str) -> str:
        return counted(int(self), unit) if unit else str(int(self))


def _shown(numbers: Mapping[str, Any]) -> dict[str, str | _Count]:
    return {name: _text(value) for name, value in numbers.items()}


def _text(value: Any) -> str | _Count:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return _Count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Family:
    """Causes that look at the same objects: one module of `trainyard.insight.explain.causes` with a ``FAMILY``.

    Parameters
    ----------
    name
        Its name, the title of its table.
    order
        Position in the documentation; unique.
    causes
        Its causes.
    find
        Yields those that apply to a job.
    """

    name: str
    order: int
    causes: tuple[Cause, ...]
    find: Callable[[JobState], Iterator[Found]]
