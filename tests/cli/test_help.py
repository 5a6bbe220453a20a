"""The help: commands by reader, an example that works for each, and completion in the shells."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.support import ROOT, in_process, python, require
from trainyard.cli.app import build

COMMAND = get_command(build())


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below: Mapping[str, Any] = getattr(command, "commands", {})
    if not below:
        yield path, command
    for name, inner in below.items():
        yield from leaves(inner, (*path, name))


LEAVES = dict(leaves(COMMAND))


def examples(command: Any) -> list[list[str]]:
    """Return the command lines of the examples, without what a shell does with them."""
    found = re.search(r"Examples?(?:, [^:]*)?:(.*)", command.epilog or "", re.DOTALL)
    lines = re.split(r";|&&|\n", found[1]) if found else []
    return [shlex.split(re.split(r"[|>]", line)[0]) for line in lines if line.strip()]


@pytest.mark.parametrize("path", sorted(LEAVES), ids=" ".join)
def test_the_help_of_every_command_has_an_example_that_parses(path: tuple[str, ...]) -> None:
    command = LEAVES[path]
    found = examples(command)
    assert found, "no example"
    for words in found:
        assert tuple(words[: len(path) + 1]) == ("trainyard", *path), "an example of another command"
        command.make_context(" ".join(path), words[len(path) + 1 :])


def test_an_option_that_does_not_exist_does_not_parse() -> None:
    with pytest.raises(Exception, match="No such option: --colour"):
        LEAVES["explain",].make_context("explain", ["train", "--colour"])


def test_commands_are_grouped_by_reader() -> None:
    text = require(in_process("--help"))
    panels = [line.strip("╭╮─ ") for line in text.splitlines() if line.startswith("╭")]
    assert panels == [
        *("Options", "Data scientists", "Runtime owners", "CI", "Platform engineers", "Operators on call", "Shell"),
    ]
    for name in COMMAND.commands:  # type: ignore[attr-defined]
        assert re.search(rf"^│ {name} ", text, re.MULTILINE), name


def completed(shell: str, line: str) -> list[str]:
    """Return what the program gives a shell for a line, as the shell's script calls it."""
    variables = {"_TRAINYARD_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    if shell == "bash":
        words = line.split(" ")
        variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        del variables["_TYPER_COMPLETE_ARGS"]
    if shell == "fish":
        variables["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    program = Path(sys.executable).parent / "trainyard"
    done = subprocess.run([program], env=os.environ | variables, capture_output=True, text=True, cwd=ROOT, check=True)
    return re.findall(r'^"?"?([\w-]+)', done.stdout.replace("_arguments '*: :((", ""), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    script = require(in_process("completion", shell))
    assert "_TRAINYARD_COMPLETE=complete_" + shell in script
    assert {"queues", "quickstart"} == set(completed(shell, "trainyard qu"))
    assert {"plan"} == set(completed(shell, "trainyard queues p"))
    assert {"--namespace"} == set(completed(shell, "trainyard explain --na"))


def test_bash_itself_completes(tmp_path: Path) -> None:
    script = tmp_path / "trainyard"
    script.write_text(require(in_process("completion", "bash")))
    program = (
        f"source {script}; complete -p trainyard; COMP_WORDS=(trainyard usage --by r) COMP_CWORD=3;"
        ' _trainyard_completion trainyard; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["complete -o default -F _trainyard_completion trainyard", "runtime"]


def test_completion_loads_only_the_command_of_the_line() -> None:
    program = (
        "import sys; from trainyard.cli.app import _first_word, build; build(_first_word());"
        "print('trainyard.cli.queues' in sys.modules, 'trainyard.cli.cluster' in sys.modules)"
    )
    variables = {"_TRAINYARD_COMPLETE": "complete_bash", "COMP_WORDS": "trainyard queues ", "COMP_CWORD": "2"}
    assert require(python(program, env=variables)).split() == ["True", "False"]
