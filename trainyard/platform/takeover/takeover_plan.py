"""Plan of the takeover of an existing installation: its decisions, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.platform.takeover.takeover import Takeover, TakeoverAction

PLAN_VARIABLE = "TRAINYARD_TAKEOVER_PLAN"
"""Set to ``true``, the program ends with the plan instead of declaring resources."""

_TITLES = {
    TakeoverAction.REJECT: "Rejected: `up` writes nothing until this is corrected",
    TakeoverAction.REPLACE: "Replaced: deleted and created again; `destroy` deletes them",
    TakeoverAction.TAKE: "Taken: changed in place",
    TakeoverAction.LEAVE: "Left: not declared by the stack",
}
_SIGNS = {TakeoverAction.REJECT: "x", TakeoverAction.REPLACE: "±", TakeoverAction.TAKE: "~", TakeoverAction.LEAVE: "="}
_COUNTS = {
    TakeoverAction.TAKE: "to take",
    TakeoverAction.REPLACE: "to replace",
    TakeoverAction.LEAVE: "left alone",
    TakeoverAction.REJECT: "rejected",
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

    def of(self, *actions: TakeoverAction) -> list[Takeover]:
        """Return the decisions with one of some actions."""
        return [each for each in self.takeovers if each.action in actions]

    @property
    def rejections(self) -> list[Finding]:
        """The objects that cannot be taken, as findings."""
        return [Finding(each.object, each.reason, each.fix) for each in self.of(TakeoverAction.REJECT)]

    @property
    def summary(self) -> str:
        """The number of objects by action, in one line."""
        if not self.takeovers:
            return "no object of another owner to take over"
        return ", ".join(f"{len(self.of(action))} {text}" for action, text in _COUNTS.items())

    @property
    def notes(self) -> list[str]:
        """What a preview and `up` report."""
        if not self.of(TakeoverAction.TAKE, TakeoverAction.REPLACE):
            return []
        return [
            f"Takeover of existing objects: {self.summary} (`trainyard adopt --plan` lists them)",
            *(f"{each.object} is deleted and created again: {each.reason}" for each in self.of(TakeoverAction.REPLACE)),
            *(
                f"{each.object} is left: {each.reason} ({each.fix})"
                for each in self.of(TakeoverAction.LEAVE)
                if each.runs
            ),
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
        for action, title in _TITLES.items():
            found = self.of(action)
            if not found:
                continue
            yield f"{title} ({len(found)})"
            for (reason, fix), group in groupby(found, lambda each: (each.reason, each.fix)):
                objects = list(group)
                yield from _group(action, reason, fix, objects)
        yield f"{self.stack}: {self.summary}"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "stack": self.stack,
            "ok": not self.rejections,
            "counts": {action.value: len(self.of(action)) for action in TakeoverAction},
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


def _group(action: TakeoverAction, reason: str, fix: str, objects: Iterable[Takeover]) -> Iterator[str]:
    for each in objects:
        kept = "" if each.retained or action is not TakeoverAction.TAKE else "; `destroy` deletes it"
        fields = f"  {', '.join(each.fields)}" if each.fields else ""
        yield f"  {_SIGNS[action]} {each.object}{fields}{kept}"
    if reason:
        yield f"      {reason}"
    if fix:
        yield f"      Fix: {fix}"
