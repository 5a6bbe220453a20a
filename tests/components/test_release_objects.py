from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cluster.former_platform import Declarations
from tests.components.recording import Recording, embedded_access, record, stack_config
from tests.components.release_changes import releases
from tests.components.release_objects import read_objects, write_objects
from tests.components.release_record import FOLDER, declared


def test_recorded_objects_are_read_as_they_were(local: Recording, tmp_path: Path) -> None:
    write_objects("now", local, tmp_path)
    found = read_objects("now", tmp_path, local, {})
    assert {each["urn"]: each["inputs"] for each in found} == {
        each.urn: each.inputs for each in local.resources.values()
    }


def test_webhooks_get_the_ports_of_the_cluster(local: Recording, tmp_path: Path) -> None:
    write_objects("now", local, tmp_path)
    found = read_objects("now", tmp_path, local, {"trainyard-controller": 30000, "jobset": 30001})
    text = str([each["inputs"] for each in found if "WebhookConfiguration" in each["type"]])
    assert "https://127.0.0.1:30000/" in text
    assert "https://127.0.0.1:30001/" in text
    assert "https://127.0.0.1:20001/" in text
    assert "https://127.0.0.1:20003/" not in text


@pytest.mark.parametrize("release", releases())
def test_each_release_has_objects_in_the_order_of_their_dependencies(release: str, local: Recording) -> None:
    found = read_objects(release, FOLDER, local, {})
    seen: set[str] = set()
    for each in found:
        assert set(each["dependencies"]) <= seen, each["name"]
        assert each["type"].startswith(("trainyard:", "pulumi:")) or each["inputs"]["kind"]
        seen.add(each["urn"])
    names = {each["name"] for each in found}
    assert {"Queue/vision", "Namespace/vision", "PriorityClass/training"} <= names


@pytest.mark.slow
def test_the_recorded_program_declares_what_the_release_declared(
    local: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = releases()[-1]
    program = Declarations(resources=read_objects(release, FOLDER, local, {}), access=embedded_access())
    found = declared(record(stack_config(), monkeypatch, program=program))
    recorded = yaml.safe_load((FOLDER / f"{release}.yaml").read_text())["stacks"]["local"]["declares"]
    assert {kind: set(names) for kind, names in found.items()} == {kind: set(recorded[kind]) for kind in recorded}
