"""The root command: what is loaded for which first word."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.main import get_command

from tests.kube.kubeconfigs import kubeconfig
from tests.support import in_process, python, require
from trainyard.cli.app import build
from trainyard.kube.api_errors import ApiError, WatchBrokenError
from trainyard.kube.client import Client

WHOLE = get_command(build()).commands  # type: ignore[attr-defined]


def described(command: Any) -> Any:
    """Return the help of a command, and of those below it."""
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


@pytest.mark.slow
def test_checking_loads_neither_the_network_nor_other_commands() -> None:
    program = (
        "import sys; import trainyard.policy.check.runner, trainyard.policy.check.checker;"
        "from trainyard.cli.app import build; build('check');"
        "print(*sorted({'aiohttp', 'requests', 'pulumi', 'rich.console', 'trainyard.cli.cluster'} & set(sys.modules)))"
    )
    assert require(python(program)).split() == []


def test_the_help_of_all_commands_loads_neither_the_settings_nor_what_commands_use() -> None:
    program = (
        "import sys; from trainyard.cli.app import build; build('--help');"
        "print(*sorted({'pydantic', 'yaml', 'aiohttp', 'tarfile', 'trainyard.settings'} & set(sys.modules)))"
    )
    assert require(python(program)).split() == []


def test_a_takeover_is_executed_by_up_and_only_planned_here() -> None:
    result = in_process("adopt")
    assert result.returncode == 2
    assert "add --plan" in result.stderr
    assert "trainyard:adopt" in result.stderr


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./absent"}}, "credential plug-in"),
        ({"tokenFile": "absent"}, "token file"),
        ({"client-certificate": "absent", "client-key": "absent"}, "kubeconfig: unusable certificate"),
    ],
)
def test_unusable_credentials_have_path_and_fix(tmp_path: Path, user: dict[str, object], said: str) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1", user)
    done = in_process("queues", "show", "--kubeconfig", str(config))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert str(tmp_path / "absent") in done.stderr
    assert any(fix in done.stderr for fix in ("(Install it)", "(Check the kubeconfig", "Fix: Write the kubeconfig"))


def test_a_cluster_that_does_not_answer_is_an_error_with_a_fix(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1", {"token": "secret"})
    done = in_process("queues", "show", "--kubeconfig", str(config))
    assert done.returncode == 2
    assert done.stderr.startswith("Error: No answer from the API server: GET /apis/scheduling.volcano.sh")
    assert "127.0.0.1:1" in done.stderr
    assert "Fix: check that the cluster runs" in done.stderr
    assert "SSLContext" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiError(403, "Forbidden", "queues is forbidden"), "rejected a request: 403 Forbidden: queues is forbidden"),
        (ApiError(404, "NotFound", "no queues"), "Fix: install the platform"),
        (ApiError(503, "ServiceUnavailable", "later"), "Fix: run the command again"),
        (WatchBrokenError("the stream ended"), "No answer from the API server: the stream ended"),
    ],
)
def test_answers_of_a_cluster_that_no_command_handles_are_errors_with_a_fix(
    tmp_path: Path, error: Exception, said: str
) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1", {"token": "secret"})
    with mock.patch.object(Client, "list", side_effect=error):
        done = in_process("queues", "show", "--kubeconfig", str(config))
    assert (done.returncode, said in done.stderr, "Fix: " in done.stderr) == (2, True, True), done.stderr


@pytest.mark.parametrize("text", ["", "[]", "not: [valid", "clusters: null\ncontexts: null\nusers: null"])
def test_a_file_that_is_no_kubeconfig_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    done = in_process("queues", "show", "--kubeconfig", str(tmp_path / "file"))
    assert (done.returncode, "kubeconfig" in done.stderr, "Fix: " in done.stderr) == (2, True, True), done.stderr
