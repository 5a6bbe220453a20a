"""`trainyard completion`: scripts with which a shell completes commands, options and values."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Final

import typer

_EPILOG: Final = """\b
Examples, which install it for new shells:
  trainyard completion bash > ~/.local/share/bash-completion/completions/trainyard
  trainyard completion zsh > "${fpath[1]}/_trainyard"
  trainyard completion fish > ~/.config/fish/completions/trainyard.fish
"""
_VARIABLE: Final = "_TRAINYARD_COMPLETE"


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("completion", epilog=_EPILOG)(_completion)


def _completion(shell: Annotated[_Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell."""
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="trainyard", complete_var=_VARIABLE, shell=shell.value))


def completed_words() -> list[str]:
    """Return the words after the program's name that a shell completes, and set the completion up."""
    from typer._completion_classes import completion_init

    completion_init()
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    words = line.split()[1:]
    return [*words, ""] if line[-1:].isspace() else words
