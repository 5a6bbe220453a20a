"""The root command: what is loaded for which first word."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from trainyard.cli.app import build

WHOLE = get_command(build()).commands  # type: ignore[attr-defined]


def described(command: Any) -> Any:
    """Return what somebody sees of a command, and of those below it."""
    below = {name: described(inner) for name, inner in getattr(command, "commands", {}).items()}
    return command.help, [(each.name, each.opts) for each in command.params], below


@pytest.mark.parametrize("word", sorted(WHOLE))
def test_the_command_of_a_word_is_registered_alone_as_it_is_with_all_others(word: str) -> None:
    alone = get_command(build(word)).commands  # type: ignore[attr-defined]
    assert word in alone
    assert len(alone) < len(WHOLE)
    assert described(alone[word]) == described(WHOLE[word])


@pytest.mark.parametrize("word", ["--help", "unknown", "", "deploy", None])
def test_any_other_word_has_all_commands(word: str | None) -> None:
    assert set(get_command(build(word)).commands) == set(WHOLE)  # type: ignore[attr-defined]


def test_checking_loads_neither_the_network_nor_other_commands() -> None:
    program = (
        "import sys; import trainyard.policy.check.run, trainyard.policy.check.checker;"
        "from trainyard.cli.app import build; build('check');"
        "print(*sorted({'aiohttp', 'requests', 'pulumi', 'rich.console', 'trainyard.cli.cluster'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
