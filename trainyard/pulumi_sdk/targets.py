"""Targets of the current run: ``--target`` and ``--exclude`` limit the resources that it may change.

The engine does not report them to the program, so they are read from the command line of the CLI that runs it: a parent
process of a program, or a child process where the Automation API runs the program inside a process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil

__all__ = ["has_targets"]

_OPTIONS = ("--target", "--target-replace", "--exclude")


def has_targets() -> bool:
    """Return whether this run changes only some of the resources of the program."""
    return any(_limits(arguments) for arguments in _command_lines())


def _limits(arguments: Iterable[str]) -> bool:
    """Return whether a command line of the CLI selects resources."""
    names = (argument.partition("=")[0] for argument in arguments)
    return any(name in _OPTIONS or (name.startswith("-t") and not name.startswith("--")) for name in names)


def _command_lines() -> Iterator[list[str]]:
    with suppress(psutil.Error):
        process = psutil.Process(os.getpid())
        for each in (*process.parents(), *process.children()):
            with suppress(psutil.Error):
                arguments = each.cmdline()
                if arguments and os.path.basename(arguments[0]) == "pulumi":  # noqa: PTH119 - not a path of this program
                    yield arguments[1:]
