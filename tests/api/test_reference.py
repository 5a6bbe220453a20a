"""The API reference is what the models say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference.api import fields, reference
from tools.reference.upstream_versions import DIFFERENCES, RELEASES, TRAIN_JOB, added, releases_of, runtime
from trainyard.api import KubernetesModel, TrainingRuntime, TrainJob

PAGE = Path(__file__).parents[2] / "docs/reference/api.md"


def test_the_page_is_up_to_date() -> None:
    command = "python -m tools.reference.api > docs/reference/api.md"
    assert PAGE.read_text() == reference(), f"write it again: {command}"


@pytest.mark.parametrize(
    ("model", "table", "kind"), [(TrainJob, TRAIN_JOB, "TrainJob"), (TrainingRuntime, runtime(), "runtimes")]
)
def test_the_tables_name_existing_fields(
    model: type[KubernetesModel], table: dict[str, tuple[str, ...]], kind: str
) -> None:
    paths = {field.path for field in fields(model)}
    assert table.keys() <= paths
    assert {difference.path.removesuffix("[]") for difference in DIFFERENCES[kind]} <= paths
    assert added()[kind].keys() <= paths
    assert {len(cells) for cells in table.values()} == {len(RELEASES)}


@pytest.mark.parametrize(
    ("path", "cells"),
    [
        ("spec.suspend", ("=", "=", "=", "=")),
        ("spec.labels", ("=", "=", "", "")),
        ("spec.podSpecOverrides[].containers[].env", ("=", "", "", "")),
        ("spec.podTemplateOverrides[].spec.affinity", ("", "=", "", "")),
        ("spec.runtimePatches[].time", ("", "", "=", "=")),
        ("spec.trainer.image", ("no limits", "no limits", "=", "=")),
    ],
)
def test_a_field_is_in_the_releases_that_have_the_field_above_it(path: str, cells: tuple[str, ...]) -> None:
    assert releases_of(TRAIN_JOB, path) == cells
