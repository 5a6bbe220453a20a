"""`trainyard console`: pages about a platform in the browser, of one viewer or of several."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.common import reader_of, recorded_state
from trainyard.errors import TrainyardError
from trainyard.listening import ANY_ADDRESS

_SERVE_EPILOG = "Example: trainyard console serve --certificate /etc/trainyard-console --host console.example.com"
_EPILOG = "Examples: trainyard console --stack production; trainyard console --from cluster.json --port 8090"


class ConsoleLogLevel(StrEnum):
    """Log levels."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def register(app: typer.Typer) -> None:
    """Add the command, which is a group for the server in a cluster."""
    group = typer.Typer(invoke_without_command=True, epilog=_EPILOG)
    group.callback()(_console)
    group.command("serve", epilog=_SERVE_EPILOG)(_serve)
    app.add_typer(group, name="console")


def _console(
    ctx: typer.Context,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="File of `trainyard snapshot save`, instead of a cluster."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of 127.0.0.1; 0: a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    scenarios: Annotated[
        Path | None,
        typer.Option("--scenarios", metavar="FOLDER", help="Folder with reports of `trainyard simulate -o json`."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace to read where you may not list all."),
    ] = None,
    stack: Annotated[str | None, typer.Option("--stack", "-s", help="Stack of the cluster.")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Kubeconfig; without stack, that of KUBECONFIG.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig.")] = None,
) -> None:
    """Show the platform in the browser: health, queues, fabric, jobs, runtimes and scenarios; nothing is written.

    All reads use your credentials. The address is valid once, for ten minutes.
    """
    if ctx.invoked_subcommand is not None:
        return
    with _packages():
        from trainyard.insight.console.loopback_server import serve
    from trainyard.insight.console.recorded_source import RecordedSource
    from trainyard.insight.console.scenario_folder import ScenarioFolder

    if scenarios is not None and not scenarios.is_dir():
        raise TrainyardError(f"{scenarios} is not a folder", fix="name the folder of the reports")
    folder = ScenarioFolder(scenarios)

    def announce(address: str) -> None:
        typer.echo(f"Console: {address}\nEnd with Ctrl+C.")

    def say(message: str) -> None:
        typer.echo(message, err=True)

    async def recorded(file: Path) -> None:
        source = RecordedSource(recorded_state(file), file.name)
        await serve(source, port=port, scenarios=folder, browser=browser, announce=announce, say=say)

    async def live() -> None:
        from trainyard.insight.console.live_source import LiveSource

        count = 0

        def observe(_method: str, _resource: str, _status: int) -> None:
            nonlocal count
            count += 1

        async with reader_of(stack, kubeconfig, context, observe=observe) as client:
            name = stack or context or client.connection.server
            source = LiveSource(client, name, (namespace,) if namespace else (), requests=lambda: count)
            await serve(source, port=port, scenarios=folder, browser=browser, announce=announce, say=say)

    asyncio.run(recorded(from_) if from_ is not None else live())


def _serve(
    certificate: Annotated[
        Path, typer.Option("--certificate", metavar="FOLDER", help="Folder with tls.crt and tls.key.")
    ],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Name by which it is opened; repeat it for several."),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", help="Namespace to read for viewers who may not list all; repeat it for several."
        ),
    ] = None,
    sessions: Annotated[
        int, typer.Option("--sessions", min=1, max=100, help="Viewers who use it at the same time.")
    ] = 10,
    name: Annotated[str, typer.Option("--name", help="Name of the cluster for the pages.")] = "",
    scenarios: Annotated[
        Path | None,
        typer.Option(
            "--scenarios", metavar="FOLDER", help="Folder with reports of `trainyard simulate`, for all viewers."
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", show_default=False, help="Address to listen on; by default all of both families.")
    ] = ANY_ADDRESS,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: a free one.")] = 9443,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Kubeconfig; by default the pod's ServiceAccount.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig.")] = None,
    log_level: Annotated[ConsoleLogLevel, typer.Option("--log-level", help="Log level.")] = ConsoleLogLevel.INFO,
) -> None:
    """Serve the pages to several viewers over TLS, in a cluster, until SIGTERM.

    Viewers sign in with their own Kubernetes tokens, or a proxy passes these on as `Authorization: Bearer TOKEN`. All
    reads are made with them; the console's own credentials are not used.
    """
    with _packages():
        from trainyard.insight.console.cluster_server import ClusterConsole, serve_cluster
        from trainyard.insight.console.scenario_folder import ScenarioFolder
    from trainyard.kube import credentials
    from trainyard.logs import write_logs

    write_logs(log_level.upper())
    connection = credentials.kubeconfig(kubeconfig, context) if kubeconfig is not None else credentials.in_cluster()
    console = ClusterConsole(
        connection=connection,
        name=name or connection.server,
        namespaces=tuple(namespaces or ()),
        hosts=tuple(hosts or ()),
        sessions=sessions,
        scenarios=ScenarioFolder(scenarios),
    )

    def ready(bound: int) -> None:
        logging.getLogger(__name__).info("serving on port %s", bound)

    asyncio.run(serve_cluster(console, certificate, host=listen, port=port, ready=ready))


@contextmanager
def _packages() -> Iterator[None]:
    """Explain a missing package of the console, which the library does not require.

    Raises
    ------
    TrainyardError
        A package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise TrainyardError(
            f"The console needs the Python package {error.name}", fix="pip install 'trainyard-platform[console]'"
        ) from error
