"""Targets of the current run: ``--target`` and ``--exclude`` limit the resources that it may change.

The engine does not report them to the program, so they are read from the command line of the CLI that runs it: a parent
process of a program, or a child process where the Automation API runs the program inside a process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import psutil

_OPTIONS = ("--target", "--target-replace", "--exclude")
_LETTERS = "tx"
_LETTERS_WITH_VALUE = "Ccmpsv"
_VARIABLES = ("PULUMI_OPTION_TARGET", "PULUMI_OPTION_TARGET_REPLACE", "PULUMI_OPTION_EXCLUDE")
"""The CLI reads every option from such a variable too, and an empty one is a target that nothing matches."""


def has_targets() -> bool:
    """Return whether this run changes only some of the resources of the program."""
    return any(name in os.environ for name in _VARIABLES) or any(
        _limits(arguments) or any(name in variables for name in _VARIABLES) for arguments, variables in _clis()
    )


def drop_target_variables() -> None:
    """Remove the variables that would limit a run to targets from the environment of this process."""
    for name in _VARIABLES:
        os.environ.pop(name, None)


def _limits(arguments: Iterable[str]) -> bool:
    """Return whether a command line of the CLI selects resources."""
    remaining = iter(arguments)
    for argument in remaining:
        if argument.startswith("--"):
            if argument.partition("=")[0] in _OPTIONS:
                return True
        elif argument.startswith("-") and (option := _with_value(argument[1:])):
            if option[0] in _LETTERS:
                return True
            if len(option) == 1:
                next(remaining, None)  # the value of the option
    return False


def _with_value(letters: str) -> str:
    """Return the first of combined one-letter options (``-fyt``) that has a value, and the rest; empty: none has."""
    for index, letter in enumerate(letters.partition("=")[0]):
        if letter in _LETTERS + _LETTERS_WITH_VALUE:
            return letters[index:]
    return ""


def _clis() -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """Yield the arguments and variables of each CLI among the parents and children of this process."""
    with suppress(psutil.Error):
        process = psutil.Process(os.getpid())
        for each in (*process.parents(), *process.children()):
            with suppress(psutil.Error):
                arguments = each.cmdline()
                if arguments and os.path.basename(arguments[0]) == "pulumi":  # noqa: PTH119 - not a path of this program
                    variables: Mapping[str, str] = {}
                    with suppress(psutil.Error):
                        variables = each.environ()
                    yield arguments[1:], variables
