"""Plan of the takeover of an existing installation: its decisions, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.live.takeover import Takeover, Verdict

__all__ = ["PLAN_VARIABLE", "PlannedTakeoverError", "TakeoverPlan"]

PLAN_VARIABLE = "TRAINYARD_TAKEOVER_PLAN"
"""Set to ``true``, the program ends with the plan instead of declaring resources."""

_TITLES = {
    Verdict.REJECT: "Rejected: `up` writes nothing until this is corrected",
    Verdict.REPLACE: "Replaced: deleted and created again; `destroy` deletes them",
    Verdict.TAKE: "Taken: changed in place",
    Verdict.LEAVE: "Left: not declared by the stack",
}
_SIGNS = {Verdict.REJECT: "x", Verdict.REPLACE: "±", Verdict.TAKE: "~", Verdict.LEAVE: "="}
_COUNTS = {
    Verdict.TAKE: "to take",
    Verdict.REPLACE: "to replace",
    Verdict.LEAVE: "left alone",
    Verdict.REJECT: "rejected",
}


@dataclass(frozen=True)
class TakeoverPlan:
    """Decisions about the objects that exist without the label of a stack.

    Parameters
    ----------
    stack
        Name of the stack.
    takeovers
        The decisions, in the order of the declarations.
    """

    stack: str
    takeovers: tuple[Takeover, ...] = ()

    def of(self, *verdicts: Verdict) -> list[Takeover]:
        """Return the decisions with one of some verdicts."""
        return [each for each in self.takeovers if each.verdict in verdicts]

    @property
    def rejections(self) -> list[Finding]:
        """The objects that cannot be taken, as findings."""
        return [Finding(each.object, each.reason, each.fix) for each in self.of(Verdict.REJECT)]

    @property
    def summary(self) -> str:
        """The number of objects by verdict, in one line."""
        if not self.takeovers:
            return "no object of another owner to take over"
        return ", ".join(f"{len(self.of(verdict))} {text}" for verdict, text in _COUNTS.items())

    @property
    def notes(self) -> list[str]:
        """What a preview and `up` report."""
        if not self.of(Verdict.TAKE, Verdict.REPLACE):
            return []
        return [
            f"Takeover of existing objects: {self.summary} (`trainyard adopt --plan` lists them)",
            *(f"{each.object} is deleted and created again: {each.reason}" for each in self.of(Verdict.REPLACE)),
            *(f"{each.object} is left: {each.reason} ({each.fix})" for each in self.of(Verdict.LEAVE) if each.runs),
        ]

    def require(self) -> None:
        """Fail if an object cannot be taken.

        Raises
        ------
        TrainyardError
            Names each of these objects, with the reason and the fix.
        """
        if rejections := self.rejections:
            raise TrainyardError(
                f"{len(rejections)} existing objects cannot be taken over by stack {self.stack}; nothing is written",
                findings=rejections,
                fix="correct these, or set install: existing for the component; `trainyard adopt --plan` lists all",
            )

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines of text; objects with the same reason and fix are listed together."""
        for verdict, title in _TITLES.items():
            found = self.of(verdict)
            if not found:
                continue
            yield f"{title} ({len(found)})"
            for (reason, fix), group in groupby(found, lambda each: (each.reason, each.fix)):
                objects = list(group)
                yield from _group(verdict, reason, fix, objects)
        yield f"{self.stack}: {self.summary}"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "stack": self.stack,
            "ok": not self.rejections,
            "counts": {verdict.value: len(self.of(verdict)) for verdict in Verdict},
            "objects": [each.as_json() for each in self.takeovers],
        }


class PlannedTakeoverError(TrainyardError):
    """End of a run that only plans, with the plan.

    Parameters
    ----------
    plan
        The plan.
    """

    def __init__(self, plan: TakeoverPlan) -> None:
        super().__init__("\n".join(plan.lines()), fix=f"unset {PLAN_VARIABLE} to apply it")
        self.plan = plan


def _group(verdict: Verdict, reason: str, fix: str, objects: Iterable[Takeover]) -> Iterator[str]:
    for each in objects:
        kept = "" if each.retained or verdict is not Verdict.TAKE else "; `destroy` deletes it"
        fields = f"  {', '.join(each.fields)}" if each.fields else ""
        yield f"  {_SIGNS[verdict]} {each.object}{fields}{kept}"
    if reason:
        yield f"      {reason}"
    if fix:
        yield f"      Fix: {fix}"
