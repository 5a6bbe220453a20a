"""`trainyard console`: pages about a platform in the browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.common import reader_of, recorded_state
from trainyard.errors import TrainyardError

__all__ = ["register"]

_EPILOG = "Examples: trainyard console --stack production; trainyard console --from cluster.json --port 8090"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("console", epilog=_EPILOG)(_console)


def _console(
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
    try:
        import python_multipart  # noqa: F401 - the plan needs it, when it is asked for

        from trainyard.console.loopback_server import serve
    except ModuleNotFoundError as error:
        raise TrainyardError(
            f"The console needs the Python package {error.name}", fix="pip install 'trainyard[console]'"
        ) from error
    from trainyard.console.recorded_source import RecordedSource
    from trainyard.console.scenario_folder import ScenarioFolder

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
        from trainyard.console.live_source import LiveSource

        count = 0

        def observe(_method: str, _resource: str, _status: int) -> None:
            nonlocal count
            count += 1

        async with reader_of(stack, kubeconfig, context, observe=observe) as client:
            name = stack or context or client.connection.server
            source = LiveSource(client, name, namespace, requests=lambda: count)
            await serve(source, port=port, scenarios=folder, browser=browser, announce=announce, say=say)

    asyncio.run(recorded(from_) if from_ is not None else live())
