"""What every input becomes, as reviewed golden files."""

from __future__ import annotations

import pytest

from tests.convert.conversions import FOLDER, NAMES, catalog, converted
from tests.golden import assert_golden
from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.conversion_report import as_text, as_yaml
from trainyard.jobs.convert.kinds import KINDS
from trainyard.jobs.render.rendered_documents import render_documents


@pytest.mark.parametrize("name", NAMES)
def test_an_input_becomes_what_was_reviewed(name: str) -> None:
    conversions = converted(name)
    text = as_text(conversions, every=True) + as_yaml(body for each in conversions for body in each.objects)
    assert_golden(FOLDER / "golden" / f"{name}.yaml", text)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_input_becomes_the_same(name: str) -> None:
    assert converted(name) == converted(name)


@pytest.mark.parametrize("runtime", ["auto", "always"])
@pytest.mark.parametrize("name", NAMES)
def test_what_it_becomes_renders(name: str, runtime: str) -> None:
    conversions = converted(name, runtime=runtime)
    objects = [body for each in conversions for body in each.objects]
    (*answers,) = render_documents({"converted": as_yaml([*runtimes_of(objects), *objects])})
    assert len(answers) == len([body for body in objects if body["kind"] == "TrainJob"])
    for answer in answers:
        assert not answer.errors
        assert not [each for each in answer.warnings if "unknown field" in each.message], answer.train_job


def test_every_kind_has_inputs() -> None:
    kinds = {conversion.source.split()[0] for name in NAMES for conversion in converted(name)}
    assert kinds >= {kind for _, kind in KINDS}
    assert len(NAMES) >= 40


def test_a_runtime_of_the_catalog_is_used_where_one_carries_the_job() -> None:
    used = {name: runtime_of(converted(name)[-1]) for name in NAMES if converted(name)[-1].objects}
    assert used["pytorch-simple"] == ("ClusterTrainingRuntime", "torch-distributed")
    assert used["pytorch-placed"] == ("ClusterTrainingRuntime", "torch-distributed")
    assert used["paddle-collective"] == ("ClusterTrainingRuntime", "paddle")
    assert used["volcano-topology"][0] == "TrainingRuntime"
    assert used["pytorch-roles"] == ("TrainingRuntime", "roles")
    for name in used:
        conversion = converted(name, runtime="always")[-1]
        assert runtime_of(conversion)[0] == "TrainingRuntime"


def runtime_of(conversion: Conversion) -> tuple[str, str]:
    reference = conversion.objects[-1]["spec"]["runtimeRef"]
    return reference["kind"], reference["name"]


def runtimes_of(objects: list[Body]) -> list[Body]:
    names = {
        body["spec"]["runtimeRef"]["name"]
        for body in objects
        if body["kind"] == "TrainJob" and body["spec"]["runtimeRef"]["kind"] == "ClusterTrainingRuntime"
    }
    return [catalog()[name] for name in sorted(names)]
