"""Findings of checks, and the error that carries them."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.checks.finding import Finding as Problem

__all__ = ["Problem", "TrainyardError"]


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
