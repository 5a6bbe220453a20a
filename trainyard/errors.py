"""User-facing error, with the findings that caused it."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import printable


class TrainyardError(Exception):
    """User-facing error: what failed, where, and the fix.

    Parameters
    ----------
    message
        What failed, in one sentence.
    fix
        What to do, in the imperative.
    findings
        Findings that caused the error, one line each.
    """

    def __init__(self, message: str, *, fix: str = "", findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.findings = tuple(findings)

    def as_findings(self) -> tuple[Finding, ...]:
        """Return the findings, or the error itself as the only one."""
        return self.findings or (Finding("", self.message, self.fix),)

    def __str__(self) -> str:
        # Further lines are indented: names in them cannot pass for other messages.
        lines = [self.message.replace("\n", "\n  "), *(f"  {printable(str(finding))}" for finding in self.findings)]
        if self.fix:
            lines.append(f"Fix: {self.fix}")
        return "\n".join(lines)
