"""Check of a runtime catalog in CI: files, releases, transitions, and a sample TrainJob on each version."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trainyard.api.constants import PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.api.tenancy import Platform, PlatformSpec, TenantPolicy, TenantPolicySpec, Tier
from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Catalog, Runtime, RuntimeVersion, VersionState
from trainyard.jobs.runtimes.catalog_loader import merged, runtimes_of, version_findings
from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder
from trainyard.jobs.runtimes.images.lock import images_of, read_lock
from trainyard.jobs.runtimes.pods import job_templates
from trainyard.jobs.runtimes.release.revision import folder_at
from trainyard.jobs.runtimes.release.transitions import transitions
from trainyard.jobs.runtimes.samples import SAMPLE_NAMESPACE, sample_train_job
from trainyard.manifests.documents import Source
from trainyard.manifests.lines import Lines
from trainyard.policy.check.runner import RuleSetSession
from trainyard.policy.check.sources import Manifest, Sources
from trainyard.policy.gate import DecisionSource
from trainyard.settings.stack import StackSettings

_PACKAGE: Final = Path(__file__).resolve().parents[2]
"""Folders of an installed Trainyard; not under the user's version control, so not compared with a revision."""
_SECONDS: Final = 60.0
_TIERS: Final = 8
"""Tiers assumed for an undeclared fabric; more than real fabrics have."""
_SAMPLE: Final = re.compile(rf"{SAMPLE_NAMESPACE}/sample-(\d+)\S*")


@dataclass(frozen=True)
class CheckScope:
    """Scope of a check.

    Parameters
    ----------
    folders
        Catalog folders, possibly with uncommitted changes.
    authored
        Runtimes written in Python.
    names
        Runtimes to check; empty: all.
    against
        Git revision to compare the folders with.
    """

    folders: Sequence[CatalogFolder]
    authored: Sequence[Runtime] = ()
    names: Sequence[str] = ()
    against: str | None = None

    @classmethod
    def of(cls, folders: Iterable[Path], **others: Any) -> CheckScope:
        """Read folders."""
        return cls([read_folder(folder) for folder in folders], **others)


@dataclass
class _Findings:
    """Findings in files, before rendering."""

    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_runtimes(rule_set: RuleSetSession, wanted: CheckScope, source: DecisionSource | None = None) -> Report:
    """Check a catalog.

    Every version must match its index and be unchanged since its release; compared with a revision, only additions,
    moved aliases and life cycle steps are allowed. All rules evaluate each version and the objects rendered from a
    TrainJob on it, in a namespace that may use everything.

    Parameters
    ----------
    rule_set
        The rules and their policy server.
    wanted
        What is checked.
    source
        Source of decisions to use instead of the rule_set's policy server.

    Raises
    ------
    TrainyardError
        A decision is unavailable, or a runtime or the revision is unknown.
    """
    findings = _Findings()
    today = rule_set.context.now.astimezone(datetime.UTC).date()
    catalog = _catalog(wanted, findings, today)
    known = {runtime.name for runtime in catalog.runtimes}
    if unknown := [name for name in wanted.names if name not in known]:
        raise TrainyardError(
            f"Runtime {unknown[0]!r} does not exist in the catalog", fix=f"use one of: {', '.join(sorted(known))}"
        )
    texts = {folder.path(file): text for folder in wanted.folders for file, text in folder.texts.items()}
    versions = [
        version
        for runtime in catalog.runtimes
        if not wanted.names or runtime.name in wanted.names
        for version in runtime.versions
        if not version_findings(version)
    ]
    report = _evaluated(rule_set, versions, texts, source)
    results = [
        *_located(Severity.ERROR, findings.errors, texts),
        *_located(Severity.WARNING, findings.warnings, texts),
        *report.findings,
    ]
    if wanted.names:
        results = [result for result in results if _about(result, wanted.names)]
    return replace(report, notes=tuple(findings.notes)).with_findings(results)


def require_valid(
    rule_set: RuleSetSession, folder: CatalogFolder, name: str, source: DecisionSource | None = None
) -> tuple[Finding, ...]:
    """Check a runtime as it would be released, and return the warnings.

    Raises
    ------
    TrainyardError
        The check has errors; all are listed.
    """
    report = check_runtimes(rule_set, CheckScope([folder], names=[name]), source)
    errors = [
        Finding(" ".join(filter(None, (each.object, each.path))), each.message, each.fix, each.rule)
        for each in report.errors
    ]
    if errors:
        raise TrainyardError(f"{name} cannot be released", findings=errors, fix="correct it, then release it")
    return report.warnings


def _catalog(wanted: CheckScope, findings: _Findings, today: datetime.date) -> Catalog:
    found: list[Runtime] = []
    for folder in wanted.folders:
        runtimes = list(runtimes_of(folder, findings.errors))
        found += runtimes
        _compare(folder, runtimes, wanted.against, findings, today)
        _lock(folder, runtimes, findings)
        for runtime in runtimes:
            _check_states(folder, runtime, findings, today)
    for runtime in wanted.authored:
        findings.errors += [finding for version in runtime.versions for finding in version_findings(version)]
        found.append(runtime)
    return merged(found, findings.errors)


def _compare(
    folder: CatalogFolder, runtimes: Sequence[Runtime], against: str | None, findings: _Findings, today: datetime.date
) -> None:
    if against is None or folder.root.resolve().is_relative_to(_PACKAGE):
        return
    before = list(runtimes_of(folder_at(folder.root, against), []))
    compared = transitions(folder, before, runtimes, today=today)
    findings.errors += compared.findings
    findings.notes += compared.said


def _lock(folder: CatalogFolder, runtimes: Sequence[Runtime], findings: _Findings) -> None:
    try:
        lock = read_lock(folder)
    except TrainyardError as error:
        findings.errors += error.findings or [Finding(str(folder.path("images.lock")), error.message, error.fix)]
        return
    used = set(images_of(Catalog(tuple(runtimes))))
    tagged = {image for image in used if "@" not in image}
    if missing := tagged - set(lock.digests):
        findings.notes.append(f"{folder.root}: {len(missing)} of {len(used)} images have no digest in images.lock")
    for image in sorted(set(lock.digests) - used):
        path = f"{folder.path('images.lock')}: images[{image}]"
        findings.warnings.append(
            Finding(path, "no runtime uses this image", "remove it with: trainyard runtimes resolve")
        )


def _check_states(folder: CatalogFolder, runtime: Runtime, findings: _Findings, today: datetime.date) -> None:
    path = f"{folder.path('index.yaml')}: runtimes.{runtime.name}"
    if runtime.alias is not None and runtime.version(runtime.alias).state is VersionState.DRAFT:
        fix = f"trainyard runtimes release {runtime.name} {runtime.alias}"
        message = f"refers to the draft {runtime.alias}, which may still change"
        findings.errors.append(Finding(f"{path}.alias", message, fix))
    for version in runtime.versions:
        if version.deprecated is not None and today > version.deprecated.remove_after:
            fix = f"trainyard runtimes retire {runtime.name} {version.version}"
            message = f"was guaranteed until {version.deprecated.remove_after}, which has passed"
            findings.warnings.append(Finding(f"{path}.versions.{version.version}", message, fix))


def _evaluated(
    rule_set: RuleSetSession,
    versions: Sequence[RuntimeVersion],
    texts: Mapping[Path, str],
    source: DecisionSource | None,
) -> Report:
    from trainyard.policy.check.checker import Checker
    from trainyard.policy.check.world import CheckContext

    runtimes = [_manifest(_undeprecated(version), version.path, texts) for version in versions]
    samples = [
        _manifest(sample_train_job(runtime.body, f"sample-{number}"), version.path, texts)
        for number, (version, runtime) in enumerate(zip(versions, runtimes, strict=True))
    ]
    accounts = {name for version in versions for name in _service_accounts(version.body)}
    world = CheckContext(rule_set.settings, [*_context_objects(rule_set.settings, sorted(accounts)), *runtimes])
    checker = Checker(rule_set.rules, world, rule_set.context, validator=rule_set.validator)

    async def evaluate() -> Report:
        if source is not None:
            return await checker.check(Sources((*runtimes, *samples)), source)
        async with rule_set.decisions(seconds=_SECONDS) as client:
            return await checker.check(Sources((*runtimes, *samples)), client)

    report = asyncio.run(evaluate())

    def named(text: str) -> str:
        return _SAMPLE.sub(lambda match: f"on {versions[int(match[1])].object_name}", text)

    return replace(
        report,
        findings=tuple(replace(result, object=named(result.object)) for result in report.findings),
        checked=tuple(sorted((file, named(name)) for file, name in report.checked)),
    )


def _undeprecated(version: RuntimeVersion) -> dict[str, Any]:
    """Return the object of a version without deprecation marks, about which its owner needs no warning."""
    return replace(version, deprecated=None).manifest()


def _service_accounts(body: Mapping[str, Any]) -> Iterator[str]:
    for job in job_templates(body):
        if isinstance(name := job.pod.get("serviceAccountName"), str):
            yield name


def _context_objects(settings: StackSettings | None, accounts: Iterable[str]) -> list[Manifest]:
    """Return a tenant that may use everything and, without a stack, a platform that offers everything."""
    queues = list(settings.leaf_queues)[:1] if settings else []
    queues = queues or [SAMPLE_NAMESPACE]
    tenant = TenantPolicySpec(
        queues=queues,
        default_queue=queues[0],
        runtimes=["*"],
        priority_classes=list(settings.priority_classes) if settings else [],
        service_accounts=["default", *accounts],
    )
    metadata = {"name": TENANT_POLICY_NAME, "namespace": SAMPLE_NAMESPACE}
    bodies = [{**TenantPolicy(spec=tenant).model_dump(by_alias=True, exclude_none=True), "metadata": metadata}]
    if settings is None:
        platform = PlatformSpec(
            leaf_queues=queues,
            accelerator_resources=["nvidia.com/gpu", "amd.com/gpu"],
            tiers=[Tier(name=f"tier-{number}", tier=number) for number in range(1, _TIERS + 1)],
            scheduler_features=["gang", "network-topology-aware"],
        )
        body = Platform(spec=platform).model_dump(by_alias=True, exclude_none=True)
        bodies.append({**body, "metadata": {"name": PLATFORM_NAME}})
    return [Manifest(Source("context", ""), 0, (), body) for body in bodies]


def _manifest(body: dict[str, Any], path: Path, texts: Mapping[Path, str]) -> Manifest:
    return Manifest(Source(_shown(path), texts.get(path, ""), path), 0, (), body)


def _located(severity: Severity, findings: Iterable[Finding], texts: Mapping[Path, str]) -> Iterator[Finding]:
    for finding in findings:
        file, _, path = finding.path.partition(": ")
        place = Path(file)
        line = Lines(texts[place]).line(0, (), path) if place in texts and path else 1
        yield replace(finding, path=path, severity=severity, file=_shown(place), line=line)


def _about(result: Finding, names: Sequence[str]) -> bool:
    return bool(result.object) or any(
        Path(result.file).parent.name == name or f"{result.path}.".startswith(f"runtimes.{name}.") for name in names
    )


def _shown(path: Path) -> str:
    """Return a file relative to the working directory, if it is inside."""
    absolute = path.absolute()
    return (absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else path).as_posix()
