"""``trainyard controller``: the controller in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the group ``controller``."""
    group = typer.Typer(help="The controller of TrainJobs.", no_args_is_help=True)
    group.command("run", epilog="Example: trainyard controller run --kubeconfig ~/.kube/config --no-webhooks")(_run)
    group.callback()(_group)
    app.add_typer(group, name="controller")


def _group() -> None:
    """The controller of TrainJobs."""


def _run(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig file; by default the pod's ServiceAccount")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig; by default the current one")] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file")] = None,
    no_webhooks: Annotated[
        bool,
        typer.Option("--no-webhooks", help="Run without admission webhooks and certificates; requires only the CRDs"),
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on")] = None,
    webhook_port: Annotated[int | None, typer.Option(help="Port of the webhook server")] = None,
    health_port: Annotated[int | None, typer.Option(help="Port of /healthz and /readyz")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error")] = "info",
) -> None:
    """Run the controller until SIGTERM."""
    from trainyard.controller.start import start

    start(
        kubeconfig=kubeconfig,
        context=context,
        config=config,
        webhooks=not no_webhooks,
        host=host,
        ports={"webhook": webhook_port, "health": health_port, "metrics": metrics_port},
        log_level=log_level,
    )
