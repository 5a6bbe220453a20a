"""The root command: registers the groups, and turns errors into a message and an exit code."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo, DefaultPlaceholder, TyperInfo

from trainyard.checks.printable_text import PrintableStream, printable
from trainyard.errors import TrainyardError

_READERS = {
    "Data scientists": ("explain", "render", "convert"),
    "Runtime owners": ("runtimes",),
    "CI": ("check", "policy"),
    "Platform engineers": (
        *("quickstart", "deploy", "adopt", "queues", "topology", "scheduler", "simulate", "usage", "images", "crds"),
    ),
    "Operators on call": ("cluster", "snapshot", "console", "controller"),
    "Shell": ("completion",),
}
"""Modules by their readers, in the order of the help."""
_PANELS = {name: reader for reader, names in _READERS.items() for name in names}
_GROUPS = tuple(_PANELS)


_DEPLOY = ("up", "preview", "destroy", "refresh")
_COMMANDS = {word: name for name in _GROUPS for word in (_DEPLOY if name == "deploy" else (name,))}
"""Module by top-level command."""

_UNREACHABLE = "check that the cluster runs and that the kubeconfig has its address (embedded: trainyard cluster up)"
_FORBIDDEN = "use credentials with this permission, or another context of the kubeconfig"
_NOT_FOUND = "install the platform (trainyard up), or use another context of the kubeconfig"
_AGAIN = "run the command again"
_GC_THRESHOLDS = (50_000, 20, 100)
"""Rare cyclic garbage collection: commands create few cycles, and the default takes a quarter of the run time."""


class _ByReader(TyperGroup):
    """Lists the commands in the order of their readers."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        order = list(_COMMANDS)
        return sorted(self.commands, key=order.index)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command whose output is printable: names and messages of tenants cannot control the terminal."""
        with _printable_output():
            return super().main(*args, **options)


def build(word: str | None = None) -> typer.Typer:
    """Return the root command.

    Parameters
    ----------
    word
        First argument. If it is a command, only its module is imported, because importing all of them takes as long as
        many commands run.
    """
    app = typer.Typer(
        name="trainyard",
        cls=_ByReader,
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
        new: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
        for each in new:
            if isinstance(each.rich_help_panel, DefaultPlaceholder):
                each.rich_help_panel = _PANELS[name]
    return app


def _root() -> None:
    """Keep Typer from replacing the root with its only command."""


def main() -> None:
    """Run the command line; exit code 0: success, 1: negative result, 2: usage or environment error."""
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.stderr = PrintableStream(sys.stderr)  # Also for the traceback of a defect.
    try:
        build(_first_word())()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except Exception as error:
        text = _user_text(error)
        if text is None:
            raise
        typer.echo(f"Error: {text}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("Interrupted; run the command again to continue.", err=True)
        sys.exit(130)


@contextlib.contextmanager
def _printable_output() -> Iterator[None]:
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, PrintableStream) else PrintableStream(stream) for stream in streams
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def _first_word() -> str | None:
    """Return the first argument; while a shell completes a command line, that of the line."""
    if "_TRAINYARD_COMPLETE" not in os.environ:
        return sys.argv[1] if len(sys.argv) > 1 else None
    from trainyard.cli.completion import completed_words

    words = completed_words()
    return words[0] if len(words) > 1 else None  # The last one is not complete.


def _user_text(error: Exception) -> str | None:
    """Return the text of an error that is reported without traceback, or None for a defect of the program.

    Does not import the Kubernetes client.
    """
    api_errors = sys.modules.get("trainyard.kube.api_errors")
    if isinstance(error, TrainyardError) or (api_errors is not None and isinstance(error, api_errors.CredentialsError)):
        return str(error)
    if api_errors is not None and isinstance(error, api_errors.TransportError | api_errors.WatchBrokenError):
        return f"No answer from the API server: {printable(str(error))}\nFix: {_UNREACHABLE}"
    if api_errors is not None and isinstance(error, api_errors.ApiError):
        fix = {403: _FORBIDDEN, 404: _NOT_FOUND}.get(error.status, _AGAIN)
        return f"The API server rejected a request: {printable(str(error))}\nFix: {fix}"
    return None
