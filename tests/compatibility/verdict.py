"""Judging a case: equal, equal but for the list of differences, or not."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.compatibility import ours
from tests.compatibility.compare import canonical, differences
from tests.compatibility.corpus.case import Body
from tests.compatibility.differences import DIFFERENCES
from tests.compatibility.scene import DENIED, MADE, REJECTED, Scene


@dataclass
class Judgement:
    """What comparing a case gave.

    Parameters
    ----------
    used
        Identifiers of the differences that explain it.
    findings
        What nothing explains.
    """

    used: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def judge(scene: Scene, admitted: Mapping[str, Body]) -> Judgement:
    """Compare both answers.

    Parameters
    ----------
    scene
        The case; its objects are changed.
    admitted
        Our objects as the API server would store them.
    """
    result = Judgement()
    _judge_runtime(scene, result)
    _judge_updates(scene, result)
    theirs, mine = scene.their_outcome, scene.my_outcome
    if theirs == DENIED and mine == REJECTED:
        if scene.their_paths != scene.my_paths:
            _explain(scene, result, f"paths: upstream {sorted(scene.their_paths)}, ours {sorted(scene.my_paths)}")
    elif theirs != mine:
        _explain(scene, result, f"outcome: upstream {theirs}, ours {mine}")
    elif theirs == MADE:
        _judge_objects(scene, admitted, result)
    return result


def _judge_runtime(scene: Scene, result: Judgement) -> None:
    if scene.theirs.runtime is None:
        return
    allowed, findings = scene.theirs.runtime.allowed, scene.mine.runtime
    if allowed == bool(findings) or (not allowed and scene.theirs.runtime.paths != ours.paths(findings)):
        text = f"runtime: upstream {scene.theirs.runtime}, ours {[str(finding) for finding in findings]}"
        _explain(scene, result, text)


def _judge_updates(scene: Scene, result: Judgement) -> None:
    pairs = zip(scene.theirs.updates, scene.mine.updates, strict=True)
    for number, (theirs, mine) in enumerate(pairs):
        if theirs.allowed == bool(mine) or (mine and theirs.paths != ours.paths(mine)):
            found = [entry.identifier for entry in DIFFERENCES if entry.update and entry.update(scene, number)]
            result.used += found
            if not found:
                text = "; ".join(str(finding) for finding in mine)
                result.findings.append(f"update {number}: upstream {theirs}\n  ours: {text}")
    changed = scene.theirs.runtime_update
    if changed is not None and changed.allowed == bool(scene.mine.runtime_update):
        found = [entry.identifier for entry in DIFFERENCES if entry.runtime_update and entry.runtime_update(scene)]
        result.used += found
        if not found:
            result.findings.append(f"runtime update: upstream {changed}, ours {scene.mine.runtime_update}")


def _explain(scene: Scene, result: Judgement, text: str) -> None:
    found = [entry.identifier for entry in DIFFERENCES if entry.verdict is not None and entry.verdict(scene)]
    if found:
        result.used += found
    else:
        result.findings.append(f"{text}\n  upstream: {scene.their_message[:500]}\n  ours: {scene.my_message[:500]}")


def _judge_objects(scene: Scene, admitted: Mapping[str, Body], result: Judgement) -> None:
    apart = [entry.identifier for entry in DIFFERENCES if entry.incomparable is not None and entry.incomparable(scene)]
    if apart:
        result.used += apart
        return
    for entry in DIFFERENCES:
        if entry.objects is not None:
            before = copy.deepcopy(scene.objects)
            entry.objects(scene)
            if scene.objects != before:
                result.used.append(entry.identifier)
    expected = {key: canonical(body) for key, body in scene.objects.items()}
    found = {key: canonical(body) if "refused" not in body else body for key, body in admitted.items()}
    result.findings += differences(expected, found)
