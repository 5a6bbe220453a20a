"""The root command: collects the groups and turns failures into one clear message and an exit code."""

from __future__ import annotations

import importlib
import os
import sys

import typer

from trainyard.problem import TrainyardError

__all__ = ["build", "main"]

_GROUPS = (
    "quickstart",
    "cluster",
    "deploy",
    "render",
    "check",
    "crds",
    "policy",
    "queues",
    "topology",
    "scheduler",
    "simulate",
    "controller",
)


def build() -> typer.Typer:
    """Return the command with every group registered."""
    app = typer.Typer(
        name="trainyard",
        help="A distributed training platform for Kubernetes as one reviewed program.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name in _GROUPS:
        importlib.import_module(f"trainyard.cli.{name}").register(app)
    return app


def main() -> None:
    """Run the command line; exit 0 fine, 1 the answer is no, 2 usage or environment error."""
    try:
        build()()
    except TrainyardError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("Interrupted; run the same command again to continue.", err=True)
        sys.exit(130)
