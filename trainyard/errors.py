"""Error with a text for the user, and the findings behind it."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.checks.finding import Finding

__all__ = ["TrainyardError"]


class TrainyardError(Exception):
    """A failure whose text is written for the user: what failed, where, and the fix.

    Parameters
    ----------
    message
        One sentence: what failed.
    fix
        What the user can do about it.
    findings
        Findings behind the failure, if there are several.
    """

    def __init__(self, message: str, *, fix: str = "", findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.findings = tuple(findings)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {finding}" for finding in self.findings)]
        if self.fix:
            lines.append(f"Fix: {self.fix}")
        return "\n".join(lines)
