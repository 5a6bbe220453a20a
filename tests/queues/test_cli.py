"""`trainyard queues check` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from trainyard.cli import queues
from trainyard.errors import TrainyardError

ROOT = Path(__file__).resolve().parents[2]
LOCAL = str(ROOT / "stacks" / "Pulumi.local.yaml")
GPU = "nvidia.com/gpu"


def check(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    app = typer.Typer()
    queues.register(app)
    result = CliRunner().invoke(app, ["queues", "check", *arguments], input=stdin)
    if isinstance(result.exception, TrainyardError):
        raise result.exception
    return result.exit_code, result.output


def manifests(folder: Path, *specs: dict[str, Any]) -> str:
    bodies = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": f"q{number}"},
            "spec": {"deserved": {GPU: 8}, **spec},
        }
        for number, spec in enumerate(specs)
    ]
    path = folder / "queues.yaml"
    path.write_text(yaml.safe_dump_all(bodies))
    return str(path)


@pytest.mark.parametrize("stack", ["local", "kind", "production"])
def test_shipped_stacks_have_no_errors(stack: str) -> None:
    code, output = check(str(ROOT / "stacks" / f"Pulumi.{stack}.yaml"), "-o", "json")
    answer = json.loads(output)
    assert (code, answer["ok"]) == (0, True)
    # A laptop's queues are smaller than a gang of the largest runtime.
    assert {each["rule"] for each in answer["results"]} <= ({"queue-capability-gang"} if stack == "kind" else set())


def test_findings_have_the_shape_of_the_contract(tmp_path: Path) -> None:
    code, output = check(manifests(tmp_path, {"capability": {GPU: 4}}), "-o", "json")
    assert code == 1
    assert json.loads(output) == {
        "ok": False,
        "results": [
            {
                "queue": "q0",
                "rule": "queue-deserved-capability",
                "severity": "error",
                "path": f"spec.deserved[{GPU}]",
                "message": f"queue 'q0': deserved of {GPU} is 8, more than its capability of 4",
                "fix": "raise the capability of q0 to 8 or lower the deserved",
            }
        ],
    }


def test_warnings_fail_only_on_request(tmp_path: Path) -> None:
    path = manifests(tmp_path, {"deserved": {}})
    code, output = check(path)
    assert (code, output.splitlines()[-1]) == (0, "0 errors, 1 warning")
    assert check(path, "--strict")[0] == 1
    assert json.loads(check(path, "--strict", "-o", "json")[1])["ok"] is False


def test_manifests_from_standard_input_are_compared_with_a_fabric(tmp_path: Path) -> None:
    text = Path(manifests(tmp_path, {"deserved": {GPU: 65}})).read_text()
    assert json.loads(check("-", "-o", "json", stdin=text)[1])["results"] == []
    code, output = check("-", "--fabric", LOCAL, stdin=text)
    assert code == 0
    assert "the fabric has 64" in output


def test_version_and_plugins_select_rules(tmp_path: Path) -> None:
    path = manifests(tmp_path, {"deserved": {}}, {"parent": "q0"})
    assert check(path)[0] == 0
    assert "queue-deserved-sum" in check(path, "--volcano-version", "1.15.1")[1]
    assert "queue-deserved-ignored" in check(path, "--plugin", "proportion")[1]


def test_a_scheduler_configuration_selects_rules(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(
        'actions: "enqueue, allocate, reclaim"\ntiers:\n- plugins:\n  - {name: capacity, enableHierarchy: true}\n'
    )
    code, output = check(manifests(tmp_path, {}), "--scheduler", str(conf))
    assert code == 1
    assert "queue-reclaim-enqueue" in output
    wrapped = tmp_path / "map.yaml"
    wrapped.write_text(yaml.safe_dump({"kind": "ConfigMap", "data": {"volcano-scheduler.conf": conf.read_text()}}))
    assert "queue-reclaim-enqueue" in check(manifests(tmp_path, {}), "--scheduler", str(wrapped))[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-file.yaml"], "cannot be read"),
        ([LOCAL, "--volcano-version", "0.1"], "Volcano 0.1 is not supported"),
        ([LOCAL, "--plugin", "drf"], "Plug-in 'drf' does not exist"),
        ([LOCAL, "--scheduler", LOCAL], "scheduler configuration is invalid"),
    ],
)
def test_invalid_arguments_are_errors(arguments: list[str], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        check(*arguments)
