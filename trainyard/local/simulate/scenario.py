"""Scenario model: the fleet, the queues, the arriving jobs, the events, and the expectations.

The sections ``fabric``, ``queues``, ``tenants``, ``scheduler`` and ``priorityClasses`` are those of a stack's settings;
``stack`` reads them from a stack's file, to replay an existing platform.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.simulate.clock import Duration
from trainyard.local.simulate.expectation import Expectation
from trainyard.local.simulate.name_list import Names
from trainyard.local.simulate.programs import PROGRAMS
from trainyard.local.simulate.scenario_jobs import JobSettings, ScenarioGang
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.scheduling.queues.queue import ROOT
from trainyard.scheduling.topology.fabric_compiler import Fabric, compile_fabric
from trainyard.settings.messages import CONFIG_NAMESPACE, findings_of
from trainyard.settings.settings_model import DnsLabel, SettingsModel
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack, parse_stack
from trainyard.settings.tenancy import QueueSettings

_STACK_SECTIONS = ("fabric", "queues", "tenants", "scheduler", "priorityClasses")
_ACTIONS = ("fail", "repair", "cordon", "uncordon", "delete", "restart", "kill", "queue")


class Event(SettingsModel):
    """An event of the platform or of jobs, with exactly one action."""

    at: Duration = Field(description="Instant")
    fail: Names = Field(default=(), description="Nodes or domains to delete, with their pods")
    repair: Names = Field(default=(), description="Nodes or domains to recreate")
    cordon: Names = Field(default=(), description="Nodes or domains to cordon")
    uncordon: Names = Field(default=(), description="Nodes or domains to uncordon")
    delete: Names = Field(default=(), description="Jobs, or patterns of jobs, to delete")
    restart: Names = Field(default=(), description="Jobs, or patterns of jobs, to restart")
    kill: Names = Field(default=(), description="Programs of Volcano to kill: scheduler, controllers, admission")
    queue: DnsLabel | None = Field(default=None, description="Queue to change")
    change: dict[str, Any] = Field(default={}, description="New values of the queue's settings")

    @model_validator(mode="after")
    def _one_action(self) -> Event:
        named = [name for name in _ACTIONS if getattr(self, name)]
        if len(named) != 1:
            raise ValueError(f"needs exactly one of {', '.join(_ACTIONS)}")
        if bool(self.queue) != bool(self.change):
            raise ValueError("queue and change must be set together")
        return self

    @property
    def label(self) -> str:
        """Label in the timeline."""
        if self.queue:
            return f"queue {self.queue} changes"
        action = next(name for name in _ACTIONS if getattr(self, name))
        return f"{action} {', '.join(getattr(self, action))}"


class ScenarioFile(SettingsModel):
    """Content of a scenario file, except the sections of a stack."""

    title: str = Field(min_length=1, max_length=200, description="Title in one line")
    about: str = Field(default="", description="Purpose")
    jobs: dict[DnsLabel, JobSettings] = Field(min_length=1, description="Jobs by name")
    events: tuple[Event, ...] = Field(default=(), description="Events")
    expect: tuple[Expectation, ...] = Field(default=(), description="Expectations")


@dataclass(frozen=True)
class Scenario:
    """A validated scenario.

    Parameters
    ----------
    name
        Name of the file without its suffix.
    file
        Jobs, events and expectations of the file.
    settings
        The platform: fabric, queues, tenants, scheduler and priority classes.
    jobs
        Individual jobs by name, including copies, in the order of the file.
    """

    name: str
    file: ScenarioFile
    settings: StackSettings
    jobs: Mapping[str, ScenarioGang]

    @cached_property
    def fabric(self) -> Fabric:
        """The compiled fabric."""
        return compile_fabric(self.settings.fabric)

    def matching(self, pattern: str) -> list[str]:
        """Return the names of the jobs that match a pattern."""
        return [name for name in self.jobs if fnmatchcase(name, pattern)]

    def nodes(self, names: Names) -> list[str]:
        """Return the nodes of names of nodes and domains."""
        return [node.name for node in self.fabric.nodes if node.name in names or set(node.path) & set(names)]


def load_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    TrainyardError
        It cannot be read or is invalid; every finding is listed with its path.
    """
    document = load(read_text(path), str(path))
    if not isinstance(document, dict):
        raise TrainyardError(f"{path} is not a scenario", fix="write title:, fabric:, jobs: and expect:")
    try:
        settings = _settings(path, document)
        file = ScenarioFile.model_validate({k: v for k, v in document.items() if k not in (*_STACK_SECTIONS, "stack")})
    except ValidationError as error:
        findings = findings_of(error, model=ScenarioFile, namespace="")
        raise TrainyardError(f"The scenario {path} is invalid", findings=findings) from error
    fabric = compile_fabric(settings.fabric)
    findings = list(_findings(file, settings, fabric))
    if findings:
        raise TrainyardError(f"The scenario {path} is invalid", findings=findings)
    jobs = {name: job for base, each in file.jobs.items() for name, job in each.expanded(base, settings).items()}
    scenario = Scenario(path.stem, file, settings, jobs)
    findings = list(_unknown_jobs(scenario))
    if findings:
        raise TrainyardError(f"The scenario {path} is invalid", findings=findings)
    return scenario


def _settings(path: Path, document: Mapping[str, Any]) -> StackSettings:
    values: dict[str, Any] = {"cluster": {"provider": "embedded"}}
    stack = document.get("stack")
    if stack is not None:
        if not isinstance(stack, str):
            finding = Finding("stack", f"must be a path (value: {stack!r})", "name a file such as Pulumi.local.yaml")
            raise TrainyardError(f"The scenario {path} is invalid", findings=[finding])
        platform = load_stack(path.parent / stack).model_dump(by_alias=True, mode="json", exclude_unset=True)
        values |= {section: platform[section] for section in _STACK_SECTIONS if section in platform}
    values |= {section: document[section] for section in _STACK_SECTIONS if section in document}
    try:
        return parse_stack(values, source=str(path))
    except TrainyardError as error:
        prefix = f"{CONFIG_NAMESPACE}:"
        findings = [replace(finding, path=finding.path.removeprefix(prefix)) for finding in error.findings]
        raise TrainyardError(f"The scenario {path} is invalid", findings=findings) from error


def _findings(file: ScenarioFile, settings: StackSettings, fabric: Fabric) -> Iterator[Finding]:
    tiers = [name for name, _ in fabric.tiers]
    if not fabric.nodes:
        yield Finding("fabric", "the fabric has no nodes", "add domains with nodes")
    for name, job in file.jobs.items():
        yield from job.findings(f"jobs.{name}", settings, tiers)
    places = {node.name for node in fabric.nodes} | {domain.name for domain in fabric.domains}
    for index, event in enumerate(file.events):
        for action in ("fail", "repair", "cordon", "uncordon"):
            yield from _unknown(f"events[{index}].{action}", "node or domain", getattr(event, action), places)
        yield from _unknown(f"events[{index}].kill", "program", event.kill, set(PROGRAMS))
        if event.queue:
            yield from _unknown(f"events[{index}].queue", "queue", (event.queue,), set(settings.queues) - {ROOT})
            yield from _wrong_change(f"events[{index}].change", event.change)
    for index, expectation in enumerate(file.expect):
        path = f"expect[{index}]"
        yield from _unknown(f"{path}.onlyOn", "node or domain", expectation.only_on, places)
        if expectation.within:
            yield from _unknown(f"{path}.within", "tier", (expectation.within,), set(tiers))
        if expectation.queue:
            known = {*settings.queues, "default"}
            yield from _unknown(f"{path}.queue", "queue", (expectation.queue,), known)


def _wrong_change(path: str, change: Mapping[str, Any]) -> Iterator[Finding]:
    try:
        QueueSettings.model_validate(change)
    except ValidationError as error:
        for finding in findings_of(error, model=QueueSettings, namespace=""):
            yield Finding(f"{path}.{finding.path}", finding.message, finding.fix)


def _unknown_jobs(scenario: Scenario) -> Iterator[Finding]:
    for index, event in enumerate(scenario.file.events):
        for action in ("delete", "restart"):
            for pattern in getattr(event, action):
                if not scenario.matching(pattern):
                    yield _no_such(f"events[{index}].{action}", "job", pattern, set(scenario.jobs))
    for index, expectation in enumerate(scenario.file.expect):
        if expectation.job and not scenario.matching(expectation.job):
            yield _no_such(f"expect[{index}].job", "job", expectation.job, set(scenario.jobs))


def _unknown(path: str, kind: str, names: Names, known: set[str]) -> Iterator[Finding]:
    for name in names:
        if name not in known:
            yield _no_such(path, kind, name, known)


def _no_such(path: str, kind: str, name: str, known: set[str]) -> Finding:
    close = difflib.get_close_matches(name, known, n=1) or sorted(known)[:8]
    return Finding(path, f"unknown {kind} {name!r}", f"use for instance {', '.join(close)}" if close else "add one")
