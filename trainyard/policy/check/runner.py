"""Run a check from its options; a policy server starts while the files are read."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.policy.engines.api_validator import ApiValidator
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.bundle import Bundle, build_bundle
from trainyard.policy.engines.opa.hanging_rules import NamedTimeouts, decisions_of
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.vap.settings_checks import reject_unknown
from trainyard.policy.prefilter import Prefilter
from trainyard.policy.review import AdmissionContext
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.rules.listed_controllers import with_listed_controllers
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import policy_settings, rule_catalogs
from trainyard.settings.platform import PolicySettings
from trainyard.settings.sections.trainer import CONTROLLER_NAMESPACE, TrainerSettings
from trainyard.settings.stack import StackSettings

if TYPE_CHECKING:
    from trainyard.kube.client import Client


@dataclass(frozen=True)
class RuleSetSession:
    """The rules and the policy server that evaluates them.

    Parameters
    ----------
    rules
        The catalog.
    context
        Settings of the stack, and the rules to evaluate.
    address
        Address of the policy server, once it runs.
    settings
        The stack's settings; None without a stack.
    validator
        Validates rendered Jobs as the API server does; None: they are not validated.
    """

    rules: Sequence[AdmissionRule]
    context: AdmissionContext
    address: Future[OpaAddress]
    settings: StackSettings | None
    validator: ApiValidator | None = None

    def decisions(self, *, seconds: float = 30.0) -> AbstractAsyncContextManager[NamedTimeouts]:
        """Open the source of decisions, with the time limit of a batch, far above its usual duration."""
        return decisions_of(self.address.result(), [rule.id for rule in self.rules], seconds=seconds)


def open_rule_set(
    stack: ExitStack,
    settings: StackSettings | None,
    *,
    folders: Sequence[Path] = (),
    only: Sequence[str] = (),
    program: Callable[[], Path] | None = None,
    server: OpaAddress | None = None,
    validator: Callable[[], Path | None] | None = None,
    now: datetime.datetime | None = None,
) -> RuleSetSession:
    """Return the rules of a stack; a server is started concurrently, and stopped with the exit stack.

    Parameters
    ----------
    stack
        Exit stack that stops the server.
    settings
        The stack's settings; None without a stack.
    folders
        Further rule folders beside those of the settings.
    only
        Ids of the rules to check; empty: all.
    program
        Returns the ``opa`` program.
    server
        A running server to use instead; its bundle must have exactly these rules.
    validator
        Returns the program ``api-validator``, None if it is not built; unset: rendered Jobs are not validated.
    now
        The current time.

    Raises
    ------
    TrainyardError
        A rule folder is invalid, or an id is unknown.
    """
    own = [*rule_catalogs(settings)[1:], *folders]
    listed = settings.policies.pod_controllers if settings else ()
    rules = with_listed_controllers(load_rules(*rule_catalogs(None), *own), listed)
    known = {rule.id for rule in rules}
    if unknown := sorted(set(only) - known):
        raise TrainyardError(f"Rule {unknown[0]} does not exist", fix=f"known rules: {', '.join(sorted(known))}")
    policies = policy_settings(settings, rules) if settings else PolicySettings()
    reject_unknown(rules, policies)
    exempt = settings.exempt_namespaces if settings else policies.exempt_namespaces
    context = AdmissionContext(
        policies,
        exempt,
        now or datetime.datetime.now(datetime.UTC),
        list(only) if only else None,
        Prefilter(rules, policies.parameters),
    )
    address = _address(stack, build_bundle(*own, rules=rules), program, server)
    api_validator = stack.enter_context(ApiValidator(validator)) if validator else None
    if own and api_validator is not None and api_validator.available:
        from trainyard.policy.check.cel_compilation import require_compiled

        require_compiled(load_rules(*own), api_validator)
    return RuleSetSession(rules, context, address, settings, api_validator)


def _address(
    stack: ExitStack, bundle: Bundle, program: Callable[[], Path] | None, server: OpaAddress | None
) -> Future[OpaAddress]:
    future: Future[OpaAddress] = Future()
    if server is not None:
        future.set_result(
            OpaAddress(server.host, server.port, ca=server.ca, token=server.token, revision=bundle.revision)
        )
        return future
    if program is None:
        raise TrainyardError("No policy server is configured", fix="set --opa-url")
    opa = OpaServer(program, bundle)
    workers = ThreadPoolExecutor(1, thread_name_prefix="opa")
    future = workers.submit(opa.__enter__)
    workers.shutdown(wait=False)

    def stop() -> None:
        if future.exception() is None:
            opa.__exit__(None, None, None)

    stack.callback(stop)
    return future


def check_paths(
    rule_set: RuleSetSession,
    paths: Sequence[str],
    *,
    stdin: Callable[[], str],
    allow_no_objects: bool = False,
    changed: Callable[[], frozenset[Path]] | None = None,
    everything: Iterable[Path] = (),
    settings_file: str = "settings",
    strict: bool = False,
    namespace: str | None = None,
) -> Report:
    """Check files.

    Parameters
    ----------
    rule_set
        The rules and their policy server.
    paths
        Files, folders, globs; ``-`` for standard input.
    stdin
        Returns the text of standard input.
    allow_no_objects
        Whether to skip explicitly named files without objects.
    changed
        Returns the changed files, whose objects are checked; None: check all.
    everything
        Files and folders whose change affects all objects: the stack's settings, rules.
    settings_file
        File of the exemptions, for findings about them.
    strict
        Whether missing parameter objects of rules are errors without a stack too; otherwise a note names these rules.
    namespace
        Namespace of the objects that name none, as ``kubectl apply --namespace`` places them.

    Raises
    ------
    TrainyardError
        A path contains no object, or a decision is unavailable.
    """
    from trainyard.policy.check.checker import Checker
    from trainyard.policy.check.sources import placed, read_sources
    from trainyard.policy.check.world import CheckContext

    sources = placed(read_sources(paths, stdin=stdin, allow_no_objects=allow_no_objects), namespace, rule_set.rules)
    if not sources.manifests and not sources.faults and not allow_no_objects:
        raise TrainyardError(
            f"No Kubernetes object found in {', '.join(paths)}",
            fix="check the path, or add --allow-no-objects if this is expected",
        )
    files = changed() if changed else None
    if files is not None and any(_touches(each, files) for each in everything):
        files = None
    world = CheckContext(rule_set.settings, sources.manifests)
    platform = TrainerSettings.of(rule_set.settings).namespace if rule_set.settings else CONTROLLER_NAMESPACE
    checker = Checker(
        rule_set.rules,
        world,
        rule_set.context,
        platform_namespace=platform,
        optional_parameters=rule_set.settings is None and not strict,
        validator=rule_set.validator,
    )

    async def evaluate() -> Report:
        async with rule_set.decisions() as client:
            return await checker.check(sources, client, changed=files)

    report = asyncio.run(evaluate())
    return report.with_findings([*report.findings, *expired_exemptions(rule_set, settings_file)])


def check_cluster(rule_set: RuleSetSession, client: Callable[[], Client], *, report: bool = False) -> Report:
    """Audit the objects of a cluster.

    Rules that are not ``audited`` are skipped: they depend on the user, which an object does not record.

    Parameters
    ----------
    rule_set
        The rules and their policy server.
    client
        Returns a client of the cluster.
    report
        Whether to write the findings into the cluster as PolicyReports.

    Raises
    ------
    TrainyardError
        The cluster cannot be read, a decision is unavailable, or the reports cannot be written.
    """
    from trainyard.policy.check.audit import existing
    from trainyard.policy.check.checker import Checker
    from trainyard.policy.check.policy_reports import policy_reports, write_reports
    from trainyard.policy.check.world import CheckContext

    wanted = rule_set.context.only
    rules = [rule for rule in rule_set.rules if rule.audited and (wanted is None or rule.id in wanted)]
    context = replace(rule_set.context, only=[rule.id for rule in rules])
    namespace = TrainerSettings.of(rule_set.settings).namespace if rule_set.settings else CONTROLLER_NAMESPACE

    async def evaluate() -> Report:
        async with client() as cluster:
            sources, parameters = await existing(cluster, rules)
            world = CheckContext(None, parameters.manifests)
            checker = Checker(rules, world, context, live=True, platform_namespace=namespace)
            async with rule_set.decisions() as source:
                found = await checker.check(sources, source)
            if report:
                namespaces = [manifest.name for manifest in parameters.manifests if manifest.kind == "Namespace"]
                bodies = policy_reports(found, rules, namespaces, context.now)
                await write_reports(cluster, bodies)
            return found

    return asyncio.run(evaluate())


def expired_exemptions(rule_set: RuleSetSession, file: str) -> list[Finding]:
    """Return a warning for each expired exemption."""
    today = rule_set.context.now.astimezone(datetime.UTC).date()
    return [
        Finding(
            f"policies.exemptions[{index}]",
            f"expired on {exemption.expires} ({exemption.reason})",
            "remove it, or set a later expiry date",
            exemption.rule,
            severity=Severity.WARNING,
            object=f"exemption of {exemption.owner}",
            file=file,
        )
        for index, exemption in enumerate(rule_set.context.settings.exemptions)
        if exemption.expires <= today
    ]


def address_of(url: str, ca: Path | None, token: Path | None) -> OpaAddress:
    """Return the address of a server from its URL.

    Raises
    ------
    TrainyardError
        The URL is invalid, or would send manifests unencrypted to another machine.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise TrainyardError(f"{url!r} is not a valid policy server URL", fix="use https://HOST:PORT")
    for name, file in (("--opa-ca", ca), ("--opa-token", token)):
        if file is not None and not file.is_file():
            raise TrainyardError(f"{name}: {file} does not exist", fix="use an existing file")
    if parts.scheme == "http":
        if not _own_machine(host):
            raise TrainyardError(f"{url} would send manifests unencrypted", fix="use https and --opa-ca")
        return OpaAddress(host, port or 8181, token=token)
    authority = ca or Path(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt")
    return OpaAddress(host, port or 443, ca=authority, token=token)


def _own_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _touches(place: Path, files: Iterable[Path]) -> bool:
    resolved = place.resolve()
    return any(file == resolved or file.is_relative_to(resolved) for file in files)
