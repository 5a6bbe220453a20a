"""A run that is limited to targets is recognized by the command line of the CLI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainyard.platform.pulumi_sdk.automation_stack import command
from trainyard.platform.pulumi_sdk.targets import has_targets

URN = "urn:pulumi:local::trainyard::trainyard:queues:Queues::queues"


VARIABLES = ("PULUMI_OPTION_TARGET", "PULUMI_OPTION_TARGET_REPLACE", "PULUMI_OPTION_EXCLUDE")


def run_beside(*arguments: str, **variables: str) -> bool:
    """Return the answer while a CLI with these arguments and variables runs, as with the Automation API."""
    waiting = ["-c", "import sys; print(flush=True); sys.stdin.read()"]
    arguments_of = ["pulumi", *waiting, "up", *arguments]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(arguments_of, executable=sys.executable, env={**os.environ, **variables}, **pipes) as cli:
        assert cli.stdout is not None
        cli.stdout.readline()
        try:
            return has_targets()
        finally:
            cli.kill()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--target", URN),
        (f"--target={URN}",),
        ("-t", URN),
        (f"-t{URN}",),
        ("--exclude", URN),
        ("--target-replace", URN),
        ("-yt", URN),
        ("-fyt", URN),
        (f"-yt{URN}",),
        ("-rt", URN),
        ("-m", "now", "-dt", URN),
        ("-x", URN),
        ("-dx", URN),
        (f"-t={URN}",),
        ("-m=now", "-t", URN),
    ],
)
def test_targets_and_exclusions_limit_a_run(arguments: tuple[str, ...]) -> None:
    assert run_beside("--yes", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--target-dependents",),
        ("--replace", URN),
        ("--trace", "file"),
        ("-mtext",),
        ("-m", "-t"),
        ("-ym", "-t"),
        ("-stext",),
        ("-r=text",),
    ],
)
def test_other_options_do_not(arguments: tuple[str, ...]) -> None:
    assert not run_beside(*arguments)


def test_no_cli_has_no_targets() -> None:
    assert not has_targets()


@pytest.mark.parametrize("variable", VARIABLES)
def test_variables_of_the_cli_limit_a_run(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_beside("--yes", **{variable: URN})
    monkeypatch.setenv(variable, URN)
    assert has_targets(), "a program inherits the variables of its CLI"


def test_runs_of_trainyard_drop_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "toolchain" / "pulumi-1" / "bin" / "pulumi"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o700)
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(program.parent))
    for variable in VARIABLES:
        monkeypatch.setenv(variable, URN)
    command()
    assert not has_targets()
    assert not os.environ.keys() & set(VARIABLES)
