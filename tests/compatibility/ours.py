"""What Trainyard answers to the same cases."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.compatibility.corpus.case import Body, Case, Update
from trainyard.api import ClusterTrainingRuntime, TrainingRuntime, TrainJob, parse
from trainyard.api.verdicts import violations
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.pipeline import validate
from trainyard.jobs.render.rendered_documents import render_documents
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.submission import read_runtime

PRIORITY_CLASS: Body = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "system-node-critical"},
    "value": 2000001000,
}
"""One that every cluster has, so that it is known which there are."""


@dataclass
class Answer:
    """Our answer to a case.

    Parameters
    ----------
    runtime
        What is wrong with the runtime.
    runtime_warnings
        Warnings about the runtime.
    errors, warnings
        What was found about the TrainJob.
    objects
        What is rendered, by kind and name.
    updates
        What is wrong with each change of the TrainJob.
    runtime_update
        What is wrong with the change of the runtime.
    """

    runtime: tuple[Finding, ...] = ()
    runtime_warnings: tuple[Finding, ...] = ()
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    objects: dict[str, Body] = field(default_factory=dict)
    updates: list[tuple[Finding, ...]] = field(default_factory=list)
    runtime_update: tuple[Finding, ...] = ()


def answer(case: Case, uid: str | None, before: Sequence[Body] = ()) -> Answer:
    """Return our answer.

    Parameters
    ----------
    case
        The question.
    uid
        The one that the API server gave the TrainJob.
    before
        The TrainJob as it was stored before each of its changes.
    """
    documents = case.documents()
    if uid is not None:
        documents[-1]["metadata"]["uid"] = uid
    documents.append(PRIORITY_CLASS)
    found = render_documents({"case": "\n---\n".join(json.dumps(body) for body in documents)})[0]
    result = Answer(errors=found.errors, warnings=found.warnings)
    result.objects = {f"{body['kind']}/{body['metadata']['name']}": body for body in found.objects}
    result.updates = [
        update_findings(case, stored, update) for stored, update in zip(before, case.updates, strict=False)
    ]
    if case.runtime is not None:
        result.runtime = _runtime_findings(case.runtime)
        result.runtime_warnings = read_runtime(case.runtime).warnings
        if case.runtime_update is not None:
            result.runtime_update = _runtime_findings(merged(case.runtime, case.runtime_update), case.runtime)
    return result


def update_findings(case: Case, stored: Body, update: Update) -> tuple[Finding, ...]:
    """Return what is wrong with a change of a stored TrainJob."""
    changed = merged(stored, update.patch)
    try:
        old, new = parse(TrainJob, stored), parse(TrainJob, changed)
        runtime = parsed(case.runtime) if case.runtime else None
    except TrainyardError as error:
        return error.findings
    shape = tuple(violations(TrainJob, changed, stored))
    if shape:
        return shape
    context = RenderContext(active_replicated_jobs=update.active)
    return validate(new, runtime, context, old=old).errors


def merged(body: Body, patch: Body) -> Body:
    """Return a copy of an object with a JSON merge patch applied (RFC 7396)."""
    result = copy.deepcopy(body)
    _merge(result, patch)
    return result


def paths(findings: Sequence[Finding]) -> frozenset[str]:
    """Return the field paths of findings."""
    return frozenset(finding.path for finding in findings)


def warning_text(finding: Finding) -> str:
    """Return a warning as the webhook's response has it, without its path."""
    return f"{finding.message}. {finding.fix}" if finding.fix else finding.message


def _merge(target: Body, patch: Body) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def parsed(body: Body) -> TrainingRuntime | ClusterTrainingRuntime:
    """Return a runtime that fits its schema."""
    model = TrainingRuntime if body["kind"] == "TrainingRuntime" else ClusterTrainingRuntime
    return parse(model, body)


def _runtime_findings(body: Body, old: Body | None = None) -> tuple[Finding, ...]:
    return read_runtime(body, parsed(old) if old else None).errors
