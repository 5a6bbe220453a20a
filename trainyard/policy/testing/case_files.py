"""Reader of ``cases.yaml``: base objects, and cases as patches of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from trainyard.checks.finding import Finding
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.rules.rule_catalog import read_yaml, rule_folders
from trainyard.policy.testing.cases import EVICTION, Case, CaseContent, CaseDecision, Circumstances
from trainyard.policy.testing.field_patches import Patch, patched
from trainyard.settings.settings_model import SettingsModel

CASES = "cases.yaml"
"""Name of the file with the cases of a rule, beside its rule.yaml."""

_FIX = "compare with the cases.yaml of a rule in policies/"

Bases = dict[str, dict[str, Any]]


class CaseObject(Patch):
    """An object: complete, or a base with changes."""

    base: str | None = Field(default=None, description="Name of a base of the file or of lib/bases.yaml")
    object: dict[str, Any] | None = Field(default=None, description="The complete object, if no base is similar")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.base is None) == (self.object is None):
            raise ValueError("set either base or object")
        if self.object is not None and not self.empty:
            raise ValueError("set, remove and add change a base; edit the object itself")
        return self


class CaseEntry(CaseObject, Circumstances):
    """One case: the object that a request creates, updates or deletes, and the expected verdict."""

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", description="Unique in the file")
    verdict: CaseDecision
    runtime: CaseObject | None = Field(default=None, description="The runtime that the TrainJob references")
    update: Patch | None = Field(default=None, description="The request updates the object with these changes")
    delete: bool = Field(default=False, description="The request deletes the object")
    evict: bool = Field(default=False, description="The request evicts the pod")
    grace_period_seconds: int | None = Field(default=None, description="Grace period of the deletion or the eviction")
    options: dict[str, Any] = Field(default={}, description="Further options of the deletion")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.verdict is CaseDecision.ALLOW) != (not self.paths):
            raise ValueError(
                "a violation requires paths, and an allowed object must not have any; correct paths or verdict"
            )
        if (self.update is not None) + self.delete + self.evict > 1:
            raise ValueError("update, delete and evict are mutually exclusive; keep one of them")
        if self.grace_period_seconds is not None and not (self.delete or self.evict):
            raise ValueError("gracePeriodSeconds requires delete or evict; add one of them")
        if self.options and not self.delete:
            raise ValueError("options require delete; add it")
        if self.update is not None and self.update.empty:
            raise ValueError("the update is empty; add a change under update")
        return self


class CasesFile(SettingsModel):
    """The content of ``cases.yaml``."""

    bases: dict[str, CaseObject] = Field(default={}, description="Objects by the names that cases use")
    cases: tuple[CaseEntry, ...]


class SharedBases(SettingsModel):
    """The content of ``lib/bases.yaml``."""

    bases: dict[str, CaseObject]


def load_cases(folder: Path, rules: Iterable[AdmissionRule]) -> list[Case]:
    """Read the cases of the rules in a catalog folder, sorted by rule, in the order of the files.

    Raises
    ------
    TrainyardError
        A file is invalid, or a rule folder has a folder ``cases``, which is not read.
    """
    by_folder = {f"{rule.id}-{rule.slug}": rule for rule in rules}
    shared = shared_bases()
    cases: list[Case] = []
    for rule_folder in rule_folders(folder):
        _reject_case_folder(rule_folder)
        rule = by_folder.get(rule_folder.name)
        path = rule_folder / CASES
        if rule is not None and path.exists():
            cases.extend(_read_cases(rule, path, shared))
    return cases


def shared_bases() -> Bases:
    """Return the base objects available to every rule, by name: ``lib/bases.yaml`` of the shipped catalog."""
    path = data_folder("policies") / "lib" / "bases.yaml"
    document = read_yaml(path)
    try:
        sources = SharedBases.model_validate(document).bases
    except ValidationError as error:
        raise _wrong(path, _validation_findings(error, document)) from error
    return _expanded_bases(sources, {}, path)


def _reject_case_folder(rule_folder: Path) -> None:
    old = rule_folder / "cases"
    if old.is_dir():
        raise TrainyardError(
            f"{old}: cases are not read from a folder",
            fix=f"move them into {rule_folder / CASES} and delete the folder",
        )


def _read_cases(rule: AdmissionRule, path: Path, shared: Bases) -> list[Case]:
    document = read_yaml(path)
    try:
        content = CasesFile.model_validate(document)
    except ValidationError as error:
        raise _wrong(path, _validation_findings(error, document)) from error
    bases = _expanded_bases(content.bases, shared, path)
    findings = list(_unused(content))
    for name, count in Counter(entry.name for entry in content.cases).items():
        if count > 1:
            findings.append(Finding(f"cases[{name}].name", f"{count} cases have this name", "rename all but one"))
    cases = []
    for entry in content.cases:
        expanded, found = _expanded(entry, bases)
        findings += [_below(f"cases[{entry.name}]", finding) for finding in found]
        cases.append(Case(rule, entry.name, entry.verdict, expanded, path))
    if findings:
        raise _wrong(path, findings)
    return cases


def _expanded_bases(sources: dict[str, CaseObject], shared: Bases, path: Path) -> Bases:
    """Return the objects of all bases by name, including the shared ones."""
    bases, findings = dict(shared), []
    for name, source in sources.items():
        where = f"bases[{name}]"
        if name in shared:
            findings.append(Finding(where, "lib/bases.yaml has a base of this name", "use another name"))
        elif source.base is not None and source.empty:
            findings.append(Finding(where, f"is equal to base {source.base!r}", "use that base, or add a change"))
        body, found = _body(source, bases)
        findings += [_below(where, finding) for finding in found]
        if body is not None:
            bases[name] = body
    if findings:
        raise _wrong(path, findings)
    return bases


def _unused(content: CasesFile) -> Iterator[Finding]:
    named = {source.base for source in content.bases.values()}
    for entry in content.cases:
        named |= {entry.base, entry.runtime.base if entry.runtime else None}
    for name in content.bases:
        if name not in named:
            yield Finding(f"bases[{name}]", "is not used by any case", "delete it, or correct the base of a case")


def _expanded(entry: CaseEntry, bases: Bases) -> tuple[CaseContent, list[Finding]]:
    """Return the content of a case, and the errors of its patches."""
    body, findings = _body(entry, bases)
    old, runtime = None, None
    period = {} if entry.grace_period_seconds is None else {"gracePeriodSeconds": entry.grace_period_seconds}
    options = {**period, **entry.options}
    if entry.delete:
        body, old = None, body
    elif entry.evict:
        body, old, options = {**EVICTION, "metadata": {}, "deleteOptions": options}, body, {}
    elif entry.update is not None and body is not None:
        old = body
        body, found = patched(old, entry.update)
        findings += [_below("update", finding) for finding in found]
    if entry.runtime is not None:
        runtime, found = _body(entry.runtime, bases)
        findings += [_below("runtime", finding) for finding in found]
    circumstances = {name: getattr(entry, name) for name in Circumstances.model_fields}
    return CaseContent(**circumstances, object=body, old_object=old, runtime=runtime, options=options), findings


def _body(source: CaseObject, bases: Bases) -> tuple[dict[str, Any] | None, list[Finding]]:
    if source.object is not None:
        return source.object, []
    base = bases.get(source.base or "")
    if base is None:
        known = ", ".join(sorted(bases))
        return None, [
            Finding(
                "base", f"base {source.base!r} does not exist", f"use one of {known}, or define it first under bases"
            )
        ]
    return patched(base, source)


def _below(path: str, finding: Finding) -> Finding:
    return Finding(f"{path}.{finding.path}", finding.message, finding.fix)


def _validation_findings(error: ValidationError, document: dict[str, Any]) -> list[Finding]:
    """Return schema errors as findings, with cases identified by name."""
    findings = []
    for entry in error.errors():
        first, *rest = entry["loc"]
        path = str(first)
        if first in ("bases", "cases") and rest:
            path, rest = f"{first}[{_name_of(document[first], rest[0])}]", rest[1:]
        message = entry["msg"].removeprefix("Value error, ")
        findings.append(Finding(".".join([path, *map(str, rest)]), message))
    return findings


def _name_of(entries: Any, key: int | str) -> str:
    entry = entries[key]
    return str(entry.get("name", key)) if isinstance(key, int) and isinstance(entry, dict) else str(key)


def _wrong(path: Path, findings: Iterable[Finding]) -> TrainyardError:
    return TrainyardError(f"{path} is invalid", fix=_FIX, findings=list(findings))
