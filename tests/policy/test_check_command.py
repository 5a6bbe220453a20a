"""The command `trainyard check`: its exit codes, with the real policy server where it is asked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tests.golden import assert_golden
from tests.policy.decisions import QUEUE, STACK
from tests.support import new_repository
from trainyard.cli import check
from trainyard.errors import TrainyardError
from trainyard.policy.check.runner import address_of

GOLDEN = Path(__file__).parent / "golden"
RUNTIMES = Path(__file__).parent.parent.parent / "runtimes"
EXAMPLE = Path(__file__).parent.parent.parent / "ci" / "example"


def app() -> typer.Typer:
    built = typer.Typer()
    built.callback()(lambda: None)
    check.register(built)
    return built


def run(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str]:
    command = ["check", "--config-file", str(STACK), *map(str, arguments)]
    result = CliRunner().invoke(app(), command, input=stdin)
    if isinstance(result.exception, TrainyardError):
        return 2, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def pod(queue: str, **metadata: Any) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "vision", "annotations": {QUEUE: queue}, **metadata},
        "spec": {"containers": [{"name": "a", "image": "registry.example.com/a@sha256:" + "0" * 64}]},
    }
    return yaml.safe_dump(body)


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    path = tmp_path / "pod.yaml"
    path.write_text(pod("language"))
    return path


@pytest.mark.parametrize("option", ["--namespace", "-n"])
def test_objects_get_a_namespace_if_they_name_none(option: str, refused: Path) -> None:
    """As kubectl places them; those that name one, and cluster-scoped ones, stay where they are."""
    expected = run(refused)
    assert expected[0] == 1
    without = refused.read_text().replace("  namespace: vision\n", "")
    assert without != refused.read_text()
    namespace = "---\n" + yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    refused.write_text(without)
    assert run(option, "vision", refused) == expected
    refused.write_text(pod("language") + namespace)
    moved = run(option, "language", refused)
    assert moved[0] == 1
    assert "Pod vision/p" in moved[1]
    assert "language/other" not in moved[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "No files to check"),
        (["--cluster", "x.yaml"], "cannot be combined with files"),
        (["--report", "x.yaml"], "requires --cluster"),
        (["--cluster", "-n", "vision"], "--namespace places the objects of files"),
        (["--write-baseline", "--baseline", "b.yaml", "x.yaml"], "requires a file, a reason and an expiry"),
        (["--rule", "QUE-999", "x.yaml"], "Rule QUE-999 does not exist"),
        (["--opa-url", "http://example.com:8181", "x.yaml"], "unencrypted"),
        (["--opa-url", "example.com", "x.yaml"], "is not a valid policy server URL"),
        (["--opa-url", "https://localhost", "--opa-ca", "/nowhere", "x.yaml"], "does not exist"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: list[str], message: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert message in output


def test_without_a_policy_server_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch, refused: Path) -> None:
    def missing() -> Path:
        raise TrainyardError("there is no opa", fix="trainyard cluster toolchain")

    monkeypatch.setattr(check, "policy_program", missing)
    code, output = run(refused)
    assert (code, "there is no opa" in output, "trainyard cluster toolchain" in output) == (2, True, True)


def test_a_server_that_does_not_answer_is_no_verdict(refused: Path) -> None:
    code, output = run("--opa-url", "http://127.0.0.1:9", refused)
    assert (code, "No policy decision" in output) == (2, True)


@pytest.mark.parametrize(
    ("url", "host", "port", "secured"),
    [("https://opa.example.com", "opa.example.com", 443, True), ("http://127.0.0.1:8181", "127.0.0.1", 8181, False)],
)
def test_addresses_of_servers(url: str, host: str, port: int, secured: bool) -> None:
    address = address_of(url, None, None)
    assert (address.host, address.port, address.ca is not None) == (host, port, secured)


@pytest.mark.cluster
def test_verdicts_and_exit_codes(refused: Path, tmp_path: Path) -> None:
    code, output = run("--format", "json", refused)
    assert code == 1
    assert [
        (each["rule"], each["object"]) for each in json.loads(output)["results"] if each["severity"] == "error"
    ] == [("QUE-002", "Pod vision/p")]
    assert run("-o", "json", "--rule", "QUE-002", "-", stdin=pod("vision"))[0] == 0
    assert run("--rule", "MLP-001", refused)[0] == 0


@pytest.mark.cluster
def test_a_repository_of_runtimes_needs_no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "stack_of", lambda *_: (None, None))
    shutil.copytree(RUNTIMES / "torch-distributed", tmp_path / "runtimes")
    command = ["check", "--format", "json", str(tmp_path / "runtimes")]
    answer = CliRunner().invoke(app(), command)
    notes = [note for note in json.loads(answer.stdout)["summary"]["notes"] if note.startswith("not evaluated: ")]
    assert (answer.exit_code, len(notes)) == (0, 1)
    assert "QUE-001" in notes[0]
    assert "(Platform is missing)" in notes[0]
    strict = CliRunner().invoke(app(), [*command, "--strict"])
    missing = [each for each in json.loads(strict.stdout)["results"] if each["path"] == "parameters"]
    assert strict.exit_code == 1
    assert {each["message"] for each in missing} == {"Platform is missing"}
    assert {each["fix"] for each in missing} == {"create the Platform of the cluster with `trainyard up`"}


@pytest.mark.cluster
def test_a_baseline_is_written_and_then_silences(refused: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "known.yaml"
    until = ["--write-baseline", "--baseline", baseline, "--reason", "moving", "--expires", "2999-01-01"]
    assert run(*until, refused)[0] == 0
    assert run("--baseline", baseline, refused)[0] == 0
    refused.write_text(pod("language", name="other"))
    assert run("--baseline", baseline, refused)[0] == 1


@pytest.mark.cluster
def test_an_exemption_lets_pass_until_its_day(refused: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(STACK.read_text())
    exemption = {"rule": "QUE-002", "namespace": "vision", "owner": "ann", "reason": "moving"}
    for day, code in (("2999-01-01", 0), ("2001-01-01", 1)):
        document["config"]["trainyard:policies"] = {"exemptions": [{**exemption, "expires": day}]}
        (tmp_path / "stack.yaml").write_text(yaml.safe_dump(document))
        assert run("--config-file", tmp_path / "stack.yaml", "--rule", "QUE-002", refused)[0] == code


@pytest.mark.cluster
def test_a_pull_request_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page about CI shows this output."""
    shutil.copytree(EXAMPLE, tmp_path / "jobs")
    monkeypatch.chdir(tmp_path)
    for form in ("text", "github"):
        code, output = run("--format", form, "jobs")
        assert code == 1
        assert_golden(GOLDEN / f"pull-request.{form}", output)


@pytest.mark.cluster
def test_only_what_changed_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.yaml").write_text(pod("language"))
    new_repository(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("--changed-since", "HEAD", ".")[0] == 0
    (tmp_path / "new.yaml").write_text(pod("language", name="new"))
    code, output = run("--changed-since", "HEAD", "--format", "json", ".")
    assert (code, {each["object"] for each in json.loads(output)["results"]}) == (1, {"Pod vision/new"})


def test_the_page_about_ci_shows_what_the_command_says() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "ci.md").read_text()
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert (GOLDEN / "pull-request.text").read_text() in blocks


@pytest.mark.slow
def test_the_former_name_of_an_option_still_works_and_names_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("replicas: 1\n")
    command = ["check", "--config-file", str(STACK), str(path)]
    assert isinstance(CliRunner().invoke(app(), command).exception, TrainyardError)
    current = CliRunner().invoke(app(), [*command, "--allow-no-objects"])
    former = CliRunner().invoke(app(), [*command, "--pass-over"])
    assert (current.exit_code, former.exit_code) == (0, 0)
    assert former.stdout == current.stdout
    assert former.stderr == "note: --pass-over is deprecated; use --allow-no-objects\n" + current.stderr
