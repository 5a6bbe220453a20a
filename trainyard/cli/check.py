"""`trainyard check`: check manifests, or the objects of a cluster, against every rule."""

from __future__ import annotations

import datetime
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.report import Format
from trainyard.cli.common import KubeconfigContext, client_of, config_path, project_file
from trainyard.data import project_root
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.checks.report.report import Report
    from trainyard.policy.check.runner import RuleSetSession
    from trainyard.settings.stack import StackSettings


_DEFAULT_STACK = "local"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", epilog="Example: trainyard check --changed-since origin/main --format github jobs/")(_check)


@dataclass(frozen=True)
class _Baseline:
    file: Path | None
    write: bool
    reason: str | None
    expires: datetime.date | None

    def apply(self, report: Report, *, partial: bool) -> Report:
        """Return a report without the violations of the baseline, after writing the baseline if requested."""
        from trainyard.policy.check.baseline import apply_baseline, baseline_text, read_baseline

        if self.file is None:
            return report
        today = datetime.datetime.now(datetime.UTC).date()
        if self.write:
            assert self.reason is not None  # noqa: S101
            assert self.expires is not None  # noqa: S101
            known = read_baseline(self.file) if self.file.exists() else []
            text = baseline_text(report, known, reason=self.reason, expires=self.expires, today=today)
            try:
                self.file.write_text(text, encoding="utf-8")
            except OSError as error:
                raise TrainyardError(
                    f"{self.file} cannot be written: {error.strerror}", fix="check the path"
                ) from error
        return apply_baseline(report, read_baseline(self.file), self.file.as_posix(), today, partial=partial)


def _check(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files, folders, globs; - for standard input.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", "-o", "--output", help="Format of the report.")] = Format.TEXT,
    stack: Annotated[
        str | None, typer.Option("--stack", help="Stack with the tenants, rules and runtimes; local by default.")
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config-file", help="Settings file instead of the stack's own.")
    ] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Baseline file with known violations.")] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write all errors to the baseline file.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason for accepting the written violations.")] = None,
    expires: Annotated[
        datetime.datetime | None,
        typer.Option("--expires", formats=["%Y-%m-%d"], help="First day on which they are reported again."),
    ] = None,
    changed_since: Annotated[
        str | None,
        typer.Option("--changed-since", metavar="REV", help="Check only objects in files that differ from REV."),
    ] = None,
    folder: Annotated[
        list[Path] | None,
        typer.Option("--folder", help="Additional rule folder; may be repeated.", exists=True, file_okay=False),
    ] = None,
    rule: Annotated[list[str] | None, typer.Option("--rule", help="Check only this rule; may be repeated.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the objects that name none.")
    ] = None,
    allow_no_objects: Annotated[
        bool, typer.Option("--allow-no-objects", help="Skip named files without Kubernetes objects instead of failing.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Without a stack: fail where a rule has no Platform or TenantPolicy.")
    ] = False,
    pass_over: Annotated[bool, typer.Option("--pass-over", hidden=True)] = False,
    opa_url: Annotated[
        str | None,
        typer.Option(
            "--opa-url", help="URL of a running policy server with the same rules; by default one is started."
        ),
    ] = None,
    opa_ca: Annotated[Path | None, typer.Option("--opa-ca", help="CA certificate of that server.")] = None,
    opa_token: Annotated[Path | None, typer.Option("--opa-token", help="Token file for that server.")] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Check the objects of a cluster instead of files.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="With --cluster: also write PolicyReports to the cluster.")
    ] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Cluster to check; the stack's by default.")
    ] = None,
    context: KubeconfigContext = None,
) -> None:
    """Find objects that a cluster would reject; exit 1 if there are any, 2 if the check fails."""
    from trainyard.cli.findings import show
    from trainyard.policy.check.runner import address_of, check_cluster, open_rule_set

    if pass_over:
        typer.echo("note: --pass-over is deprecated; use --allow-no-objects", err=True)
    known = _Baseline(baseline, write_baseline, reason, expires.date() if expires else None)
    _usage(paths or [], cluster=cluster, report=report, changed_since=changed_since, baseline=known)
    if cluster and namespace:
        raise TrainyardError("--namespace places the objects of files", fix="omit it with --cluster")
    settings, file = stack_of(stack, config_file)
    server = address_of(opa_url, opa_ca, opa_token) if opa_url else None
    folders = folder or []
    with ExitStack() as ends:
        rule_set = open_rule_set(
            ends,
            settings,
            folders=folders,
            only=rule or [],
            program=policy_program,
            server=server,
            validator=validator_program,
        )
        if cluster:
            named = stack or _DEFAULT_STACK
            found = check_cluster(rule_set, lambda: client_of(kubeconfig, context, settings, named), report=report)
        else:
            found = _files(
                rule_set,
                paths or [],
                changed_since,
                folders,
                file,
                allow_no_objects=allow_no_objects or pass_over,
                strict=strict,
                namespace=namespace,
            )
        if settings is None:
            found = found.with_notes("no stack: tenants and platform are unknown")
        found = known.apply(found, partial=bool(changed_since or rule))
    show(found, form)
    raise typer.Exit(1 if found.errors else 0)


def _files(
    rule_set: RuleSetSession,
    paths: list[str],
    changed_since: str | None,
    folders: list[Path],
    file: Path | None,
    *,
    allow_no_objects: bool,
    strict: bool,
    namespace: str | None,
) -> Report:
    from trainyard.manifests.files import read_text
    from trainyard.manifests.revisions import changed_files
    from trainyard.policy.check.runner import check_paths
    from trainyard.policy.stack_objects import rule_catalogs

    everything = [*rule_catalogs(rule_set.settings), *folders, *([file] if file else [])]
    return check_paths(
        rule_set,
        paths,
        stdin=lambda: read_text("-"),
        allow_no_objects=allow_no_objects or changed_since is not None,
        changed=(lambda: changed_files(changed_since, Path.cwd())) if changed_since else None,
        everything=everything,
        settings_file=file.as_posix() if file else "settings",
        strict=strict,
        namespace=namespace,
    )


def _usage(paths: list[str], *, cluster: bool, report: bool, changed_since: str | None, baseline: _Baseline) -> None:
    if cluster and (paths or changed_since):
        raise TrainyardError("--cluster cannot be combined with files", fix="omit PATH and --changed-since")
    if not cluster and not paths:
        raise TrainyardError("No files to check", fix="name files or folders, - for standard input, or --cluster")
    if report and not cluster:
        raise TrainyardError("--report requires --cluster", fix="use --format for a report on files")
    if baseline.write and not (baseline.file and baseline.reason and baseline.expires):
        raise TrainyardError(
            "--write-baseline requires a file, a reason and an expiry", fix="add --baseline, --reason and --expires"
        )


def stack_of(stack: str | None, config_file: Path | None) -> tuple[StackSettings | None, Path | None]:
    """Return the settings and the settings file of a stack, by default local; None outside of a checkout."""
    if stack is None and config_file is None and not (project_root() / "stacks").is_dir():
        return None, None
    from trainyard.settings.stack_loader import load_stack

    file = config_path(stack or _DEFAULT_STACK, config_file)
    return load_stack(file, project_file()), file


def policy_program() -> Path:
    """Return the policy server's program, after building it if necessary."""
    from trainyard.local.cluster.toolchain import Toolchain, pinned, program_path

    (found,) = Toolchain().resolve([program for program in pinned() if program.name == "opa"])
    if found.path is not None:
        return found.path
    from rich.console import Console

    from trainyard.cli.common import line_progress

    return program_path("opa", progress=line_progress(Console(stderr=True)))


def validator_program() -> Path | None:
    """Return the program that validates Jobs as the API server does, or None if it is not built."""
    from trainyard.local.cluster.toolchain import Toolchain, pinned

    (found,) = Toolchain().resolve([program for program in pinned() if program.name == "api-validator"])
    return found.path
