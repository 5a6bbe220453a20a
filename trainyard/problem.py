"""Findings of checks, and the error that carries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = ["Problem", "TrainyardError"]


@dataclass(frozen=True, order=True)
class Problem:
    """One finding: where it is, what is wrong, and what to do.

    Parameters
    ----------
    path
        Field path in the judged object (``spec.trainer.numNodes``), empty for the object as a whole.
    message
        What is wrong, with the offending value.
    fix
        What to change, in the imperative.
    rule
        Identifier of the rule that found it, or None where no catalogued rule did.
    """

    path: str
    message: str
    fix: str = ""
    rule: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the shape of the command-line contract: path, message, fix, rule."""
        return asdict(self)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        fix = f" ({self.fix})" if self.fix else ""
        return f"{where}{self.message}{fix}"


class TrainyardError(Exception):
    """A failure whose text is written for the user: what failed, where, and the fix.

    Parameters
    ----------
    message
        One sentence: what failed.
    fix
        What the user can do about it.
    problems
        Findings behind the failure, if there are several.
    """

    def __init__(self, message: str, *, fix: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.problems = tuple(problems)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {problem}" for problem in self.problems)]
        if self.fix:
            lines.append(f"Fix: {self.fix}")
        return "\n".join(lines)
