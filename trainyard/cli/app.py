"""The root command: collects the groups and turns failures into one clear message and an exit code."""

from __future__ import annotations

import gc
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
    "convert",
    "crds",
    "policy",
    "queues",
    "topology",
    "scheduler",
    "runtimes",
    "simulate",
    "controller",
)


_DEPLOY = ("up", "preview", "destroy", "refresh")
_COMMANDS = {**{name: name for name in _GROUPS if name != "deploy"}, **dict.fromkeys(_DEPLOY, "deploy")}
"""The module of each first word."""

_GARBAGE = (50_000, 20, 100)
"""When Python looks for cycles: commands make many objects and few cycles; to look often is a quarter of the time."""


def build(word: str | None = None) -> typer.Typer:
    """Return the command.

    Parameters
    ----------
    word
        The first word of the arguments: where it names a command, only that one is registered, because to load all of
        them takes as long as many of them run.
    """
    app = typer.Typer(
        name="trainyard",
        help="A distributed training platform for Kubernetes as one reviewed program.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    groups = (_COMMANDS[word],) if word in _COMMANDS else _GROUPS
    if len(groups) == 1:
        app.callback()(_root)
    for name in groups:
        importlib.import_module(f"trainyard.cli.{name}").register(app)
    return app


def _root() -> None:
    """Keep the name of a command that is alone."""


def main() -> None:
    """Run the command line; exit 0 fine, 1 the answer is no, 2 usage or environment error."""
    gc.set_threshold(*_GARBAGE)
    try:
        build(sys.argv[1] if len(sys.argv) > 1 else None)()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:
        if not _foreseen(error):
            raise
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("Interrupted; run the same command again to continue.", err=True)
        sys.exit(130)


def _foreseen(error: Exception) -> bool:
    """Whether the text of an error is written for the user; commands that use no cluster never load its client."""
    kube = sys.modules.get("trainyard.kube")
    return isinstance(error, TrainyardError) or (kube is not None and isinstance(error, kube.CredentialsError))
