"""A run that is limited to targets is recognized by the command line of the CLI."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainyard.pulumi_sdk.targets import has_targets

URN = "urn:pulumi:local::trainyard::trainyard:queues:Queues::queues"


def run_beside(*arguments: str) -> bool:
    """Return the answer while a CLI with these arguments runs, as with the Automation API."""
    waiting = ["-c", "import sys; print(flush=True); sys.stdin.read()"]
    command = ["pulumi", *waiting, "up", *arguments]
    with subprocess.Popen(command, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cli:
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
    ],
)
def test_targets_and_exclusions_limit_a_run(arguments: tuple[str, ...]) -> None:
    assert run_beside("--yes", *arguments)


@pytest.mark.parametrize("arguments", [(), ("--target-dependents",), ("--replace", URN), ("--trace", "file")])
def test_other_options_do_not(arguments: tuple[str, ...]) -> None:
    assert not run_beside(*arguments)


def test_no_cli_has_no_targets() -> None:
    assert not has_targets()
