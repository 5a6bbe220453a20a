"""``trainyard cluster``: a control plane from one of the providers."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import Output, line_progress, settings_of
from trainyard.errors import TrainyardError
from trainyard.local.cluster.host_address import IpFamily
from trainyard.local.cluster.providers import PROVIDERS

if TYPE_CHECKING:
    from trainyard.local.cluster.provider import Provider
    from trainyard.progress import Progress
    from trainyard.settings.stack import StackSettings


if TYPE_CHECKING:
    ProviderName = str
else:
    ProviderName = StrEnum("ProviderName", {name: name for name in PROVIDERS})


_Stack = Annotated[str, typer.Option("--stack", help="Stack with the cluster's settings.")]
_Name = Annotated[str | None, typer.Option("--name", help="Name of the cluster; by default the stack's.")]
_Kind = Annotated[ProviderName | None, typer.Option("--provider", help="Provider; by default the stack's.")]
_Format = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Start, stop and inspect a control plane.", no_args_is_help=True)
    for command, options in (
        (up, ""),
        (down, " --delete"),
        (status, " -o json"),
        (logs, " vc-scheduler --lines 50"),
        (toolchain, " -o json"),
        (env, " --stack local"),
        (nodes, " --stack local"),
    ):
        group.command(epilog=f"Example: trainyard cluster {command.__name__}{options}")(command)
    app.add_typer(group, name="cluster")


def up(
    stack: _Stack = "local",
    name: _Name = None,
    provider: _Kind = None,
    ip_family: Annotated[
        IpFamily | None,
        typer.Option("--ip-family", help="Address family of a new cluster of provider embedded; by default ipv4."),
    ] = None,
) -> None:
    """Start the control plane with the nodes of the stack's fabric; idempotent.

    If the stack is installed, waits until tenants can submit jobs.
    """
    from trainyard.local.cluster.embedded import EmbeddedProvider
    from trainyard.platform.admission import wait_for_tenants

    settings, chosen = _choose(stack, name, provider)
    if isinstance(chosen, EmbeddedProvider):
        chosen.ip_family = ip_family
    elif ip_family is not None:
        raise TrainyardError(
            "--ip-family is for provider embedded only: this one's cluster has its own address families",
            fix="leave it out",
        )
    access = chosen.up(settings.fabric, _progress())
    wait_for_tenants(access, settings, _progress())
    typer.echo(f"kubeconfig: {access.kubeconfig}" + (f" (context {access.context})" if access.context else ""))


def down(
    stack: _Stack = "local",
    name: _Name = None,
    provider: _Kind = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Also remove all objects and files, including the Pulumi state.")
    ] = False,
) -> None:
    """Stop the control plane; its objects are kept."""
    _choose(stack, name, provider)[1].down(delete=delete, progress=_progress())


def status(stack: _Stack = "local", name: _Name = None, provider: _Kind = None, output: _Format = Output.TEXT) -> None:
    """Show the status of all processes; exit 1 if one is not healthy."""
    from trainyard.local.cluster.presentation import status_table

    found = _choose(stack, name, provider)[1].status()
    if output is Output.JSON:
        typer.echo(json_text(found.as_json()))
    else:
        typer.echo(status_table(found))
    raise typer.Exit(0 if found.healthy else 1)


def logs(
    process: Annotated[str, typer.Argument(help="Name of the process in `trainyard cluster status`.")],
    stack: _Stack = "local",
    name: _Name = None,
    provider: _Kind = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines.")] = 100,
) -> None:
    """Print the last lines of the log of a process."""
    typer.echo(_choose(stack, name, provider)[1].logs(process, lines))


def toolchain(
    output: _Format = Output.TEXT,
    older: Annotated[
        bool, typer.Option("--older", help="Also older versions and programs that only tests use.")
    ] = False,
    optional: Annotated[
        list[str] | None,
        typer.Option("--with", help="Also this program, which not every platform has, such as kueue or kubelet."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="This program instead of all; may be repeated.")
    ] = None,
    manifests: Annotated[
        bool, typer.Option("--manifests", help="Only download the upstream manifests, and build no program.")
    ] = False,
) -> None:
    """Download the upstream manifests, build the missing upstream programs, and print the location of each program."""
    from trainyard import upstream
    from trainyard.local.cluster.presentation import toolchain_table
    from trainyard.local.cluster.toolchain import Toolchain, pinned
    from trainyard.settings.versions import PROGRAMS, installed_components

    known = {program.name: program for program in PROGRAMS if program.optional}
    if unknown := [name for name in optional or () if name not in known]:
        raise TrainyardError(f"--with {unknown[0]}: not an optional program", fix=f"use one of {', '.join(known)}")
    names = {program.name for program in pinned()}
    if unknown := [name for name in only or () if name not in names]:
        raise TrainyardError(f"--only {unknown[0]}: not a program", fix=f"use one of {', '.join(sorted(names))}")
    if manifests and only:
        raise TrainyardError("--manifests builds no program, and --only names one", fix="leave one of them out")
    upstream.require_modules(
        (name for name in installed_components() if name not in known or name in (optional or ())), older=older
    )
    if manifests:
        source = os.environ.get(upstream.SOURCE_VARIABLE) or upstream.module_cache()
        document = json_text({"manifests": str(source)}, indent=None)
        typer.echo(document if output is Output.JSON else f"Upstream manifests: {source}")
        return
    wanted = [program for program in PROGRAMS if not (program.measured or program.optional)] if older else pinned()
    chosen = [program for program in wanted if not only or program.name in only]
    tools = Toolchain()
    left_out = [] if only else tools.without_sources(chosen)
    asked = [program for program in chosen if program not in left_out] + [known[name] for name in optional or ()]
    built = tools.ensure(asked, progress=_progress())
    programs = [*built, *tools.resolve(left_out)]
    if left_out:
        missing = ", ".join(dict.fromkeys(program.name for program in left_out))
        typer.echo(
            f"This installation has no sources of: {missing}. Install them, or build them in a checkout.", err=True
        )
    if output is Output.JSON:
        typer.echo(json_text({"programs": [program.as_json() for program in programs]}))
    else:
        typer.echo(toolchain_table(programs))


def env(stack: _Stack = "local", name: _Name = None, provider: _Kind = None, output: _Format = Output.TEXT) -> None:
    """Print the variables that point kubectl and pulumi at the cluster: eval "$(trainyard cluster env)"."""
    from trainyard.local.cluster.environment import exports
    from trainyard.local.cluster.toolchain import Toolchain

    Toolchain().refuse_changed()
    variables = _choose(stack, name, provider)[1].environment()
    typer.echo(json_text(variables) if output is Output.JSON else exports(variables))


def nodes(stack: _Stack = "local", name: _Name = None, provider: _Kind = None) -> None:
    """Synchronize the simulated nodes with the stack's fabric."""
    settings, chosen = _choose(stack, name, provider)
    typer.echo(str(chosen.sync_nodes(settings.fabric)))


def _choose(stack: str, name: str | None, kind: str | None) -> tuple[StackSettings, Provider]:
    from trainyard.local.cluster import cluster_name, provider

    settings = settings_of(stack)
    cluster = settings.cluster if kind is None else settings.cluster.model_copy(update={"provider": str(kind)})
    return settings, provider(cluster, name or cluster_name(settings, stack))


def _progress() -> Progress:
    from rich.console import Console

    return line_progress(Console(stderr=True, soft_wrap=True, highlight=False))
