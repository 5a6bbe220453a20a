"""What Trainyard says of a piece of YAML in the documentation, by its own models: nothing, where the page is right."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT
from trainyard.api import MODELS, parse
from trainyard.api.constants import API_VERSION, TRAIN_JOB
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.submission import RUNTIME_MODELS, read_runtime
from trainyard.jobs.runtimes.runtime_lint import lint_runtime, lint_train_job
from trainyard.local.simulate.scenario import load_scenario
from trainyard.manifests.documents import Source
from trainyard.manifests.loader import load
from trainyard.policy.check.baseline import read_baseline
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.train_job_check import Resolved, resolved
from trainyard.policy.check.world import CheckContext
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack, stack_settings

_LOCAL = ROOT / "stacks" / "Pulumi.local.yaml"
_BY_NAME = ("trainyard:queues", "trainyard:tenants", "trainyard:priorityClasses")
"""Sections of which a page shows some entries, beside which the stack has others."""

Found = Iterator[Finding]


@cache
def stack() -> StackSettings:
    """Return stack local with the whole catalog; progress reports, the same for all, have a page of their own."""
    settings = load_stack(_LOCAL)
    catalog = settings.runtimes.model_copy(update={"include": ["*"]})
    trainer = TrainerSettings.of(settings).model_copy(update={"progress_reports": False})
    return settings.model_copy(update={"runtimes": catalog, "trainer": trainer})


@cache
def _world() -> CheckContext:
    return CheckContext(stack())


def faults_of(documents: list[Any], folder: Path) -> Found:
    """Yield what is wrong with the documents of one block.

    Parameters
    ----------
    documents
        What the block says.
    folder
        An empty folder for files.
    """
    manifests = [_manifest(body) for body in documents if _is_object(body)]
    for body in documents:
        yield from _faults(body, manifests, folder)


def of_train_job(body: dict[str, Any], others: list[Manifest] | None = None) -> tuple[Resolved, list[Finding]]:
    """Return what becomes of a TrainJob on stack local, and everything that is said about it."""
    runtimes = [other for other in others or () if other.kind in RUNTIME_MODELS]
    world = CheckContext(stack(), runtimes) if runtimes else _world()
    became = resolved(_manifest(body), world)
    found = [*became.errors, *became.warnings]
    if became.objects and became.runtime is not None:
        found += lint_train_job(became.body, became.runtime.body, became.objects, lambda: world.capacities)
    return became, found


def _faults(body: Any, manifests: list[Manifest], folder: Path) -> Found:
    if _is_object(body):
        yield from _of_object(body, manifests)
    elif isinstance(body, dict) and body and all(str(key).startswith("trainyard:") for key in body):
        yield from _of_settings(body)
    elif isinstance(body, dict) and {"fabric", "jobs"} <= body.keys():
        yield from _of_file(folder / "scenario.yaml", body, load_scenario)
    elif isinstance(body, list) and body and {"rule", "path", "reason"} <= body[0].keys():
        yield from _of_file(folder / "baseline.yaml", body, read_baseline)


def _of_object(body: dict[str, Any], manifests: list[Manifest]) -> Found:
    version, kind = body["apiVersion"], body["kind"]
    if version == API_VERSION and kind == TRAIN_JOB:
        yield from of_train_job(body, manifests)[1]
    elif version == API_VERSION and kind in RUNTIME_MODELS:
        read = read_runtime(body)
        yield from (*read.errors, *read.warnings)
        if not read.errors:
            yield from lint_runtime(read.body)
    elif (version, kind) in MODELS:
        try:
            parse(MODELS[version, kind], body)
        except TrainyardError as error:
            yield from error.findings


def _of_settings(sections: dict[str, Any]) -> Found:
    config = load(_LOCAL.read_text())["config"]
    for name, section in sections.items():
        config[name] = {**config.get(name, {}), **section} if name in _BY_NAME else section
    try:
        stack_settings({"config": config}, source="settings")
    except TrainyardError as error:
        yield from error.findings or [Finding("", error.message, error.fix or "")]


def _of_file(path: Path, body: Any, read: Any) -> Found:
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    try:
        read(path)
    except TrainyardError as error:
        yield from error.findings or [Finding("", error.message, error.fix or "")]


def _is_object(body: Any) -> bool:
    return isinstance(body, dict) and {"apiVersion", "kind"} <= body.keys()


def _manifest(body: dict[str, Any]) -> Manifest:
    return Manifest(Source("page", ""), 0, (), body)
