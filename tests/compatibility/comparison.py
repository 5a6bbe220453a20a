"""Comparison of a case: equal, equal but for the list of differences, or not."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.compatibility import ours
from tests.compatibility.compared_case import DENIED, MADE, REJECTED, Scene
from tests.compatibility.corpus.case import Body
from tests.compatibility.differences import DIFFERENCES
from tests.compatibility.differences.difference import Difference
from tests.compatibility.object_differences import canonical, differences
from trainyard.checks.finding import Finding


@dataclass
class Comparison:
    """What comparing a case gave.

    Parameters
    ----------
    used
        Identifiers of the differences that explain it.
    verdicts, objects
        Different verdicts or warnings, and different objects, that nothing explains.
    rendered
        Whether the objects of both sides were compared.
    """

    used: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    rendered: bool = False

    @property
    def findings(self) -> list[str]:
        """What nothing explains."""
        return [*self.verdicts, *self.objects]


def compare(scene: Scene, admitted: Mapping[str, Body]) -> Comparison:
    """Compare both answers.

    Parameters
    ----------
    scene
        The case; its objects are changed.
    admitted
        Our objects as the API server would store them.
    """
    result = Comparison()
    _compare_runtime(scene, result)
    _compare_updates(scene, result)
    _compare_warnings(scene, result)
    theirs, mine = scene.their_outcome, scene.my_outcome
    if theirs == DENIED and mine == REJECTED:
        if scene.their_paths != scene.my_paths:
            text = f"paths: upstream {sorted(scene.their_paths)}, ours {sorted(scene.my_paths)}"
            _explain(scene, result, text, [error for error in scene.mine.errors if error.path not in scene.their_paths])
    elif theirs != mine:
        errors = scene.mine.errors if theirs != DENIED else ()
        _explain(scene, result, f"outcome: upstream {theirs}, ours {mine}", errors)
    elif theirs == MADE:
        _compare_objects(scene, admitted, result)
    return result


def _compare_runtime(scene: Scene, result: Comparison) -> None:
    if scene.theirs.runtime is None:
        return
    allowed, findings = scene.theirs.runtime.allowed, scene.mine.runtime
    if allowed == bool(findings) or (not allowed and scene.theirs.runtime.paths != ours.paths(findings)):
        text = f"runtime: upstream {scene.theirs.runtime}, ours {[str(finding) for finding in findings]}"
        _explain(scene, result, text, findings if scene.theirs.runtime.allowed else ())


def _compare_updates(scene: Scene, result: Comparison) -> None:
    stored_here = scene.my_outcome != REJECTED
    pairs = zip(scene.theirs.updates, scene.mine.updates, strict=True) if stored_here else ()
    for number, (theirs, mine) in enumerate(pairs):
        if theirs.allowed == bool(mine) or (mine and theirs.paths != ours.paths(mine)):
            found = [entry.identifier for entry in DIFFERENCES if entry.update and entry.update(scene, number)]
            result.used += found
            if not found:
                text = "; ".join(str(finding) for finding in mine)
                result.verdicts.append(f"update {number}: upstream {theirs}\n  ours: {text}")
    changed = scene.theirs.runtime_update
    if changed is not None and changed.allowed == bool(scene.mine.runtime_update):
        found = [entry.identifier for entry in DIFFERENCES if entry.runtime_update and entry.runtime_update(scene)]
        result.used += found
        if not found:
            result.verdicts.append(f"runtime update: upstream {changed}, ours {scene.mine.runtime_update}")


def _compare_warnings(scene: Scene, result: Comparison) -> None:
    """Every warning of upstream's webhooks is one of ours, unless we reject the object; further ones are allowed."""
    pairs = [("runtime", scene.theirs.runtime, scene.mine.runtime_warnings)]
    if scene.my_outcome != REJECTED:
        pairs.append(("TrainJob", scene.theirs.train_job, scene.mine.warnings))
    for subject, verdict, mine in pairs:
        texts = {ours.warning_text(finding) for finding in mine}
        for warning in verdict.warnings if verdict and verdict.allowed else ():
            if not warning.startswith("unknown field") and warning.replace(" of Kubeflow Trainer", "") not in texts:
                result.verdicts.append(f"{subject}: upstream warns {warning!r}, ours {sorted(texts)}")


def _explain(scene: Scene, result: Comparison, text: str, errors: Sequence[Finding] = ()) -> None:
    """Find the rows that explain a verdict: of the case, or one for each of our errors where upstream accepts it."""
    found = [entry.identifier for entry in DIFFERENCES if entry.verdict is not None and entry.verdict(scene)]
    rows = [[entry.identifier for entry in DIFFERENCES if _explains(entry, scene, error)] for error in errors]
    if rows and all(rows):
        found += [identifier for row in rows for identifier in row]
    if found:
        result.used += found
    else:
        result.verdicts.append(f"{text}\n  upstream: {scene.their_message[:500]}\n  ours: {scene.my_message[:500]}")


def _explains(entry: Difference, scene: Scene, error: Finding) -> bool:
    return entry.finding is not None and entry.finding(scene, error)


def _compare_objects(scene: Scene, admitted: Mapping[str, Body], result: Comparison) -> None:
    found = [entry.identifier for entry in DIFFERENCES if entry.incomparable is not None and entry.incomparable(scene)]
    if found:
        result.used += found
        return
    for entry in DIFFERENCES:
        if entry.objects is not None:
            before = copy.deepcopy(scene.objects)
            entry.objects(scene)
            if scene.objects != before:
                result.used.append(entry.identifier)
    result.rendered = True
    expected = {key: canonical(body) for key, body in scene.objects.items()}
    stored = {key: canonical(body) if "refused" not in body else body for key, body in admitted.items()}
    result.objects += differences(expected, stored)
