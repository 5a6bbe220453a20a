"""Defaulting: when a patch last changed, and how many processes a word means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, runtime, trainer
from trainyard.jobs.render.defaults import defaulted, wants_runtime

NOW = "2026-06-01T00:00:00Z"
OLD = "2026-01-01T00:00:00Z"


def job(*patches: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job"}, "spec": {"runtimePatches": list(patches)}}


def patch(content: str | None = None, time: str | None = None, manager: str = "a.io/b") -> dict[str, Any]:
    body: dict[str, Any] = {"manager": manager}
    if content:
        body["trainingRuntimeSpec"] = {"template": {"metadata": {"labels": {"a": content}}}}
    return body | ({"time": time} if time else {})


@pytest.mark.parametrize(
    ("stored", "sent", "time"),
    [
        (None, patch(), NOW),
        (None, patch(time=OLD), OLD),
        (patch("x", OLD), patch("x"), OLD),
        (patch("x", OLD), patch("x", NOW), OLD),
        (patch("x", OLD), patch("y", OLD), NOW),
        (patch("x", OLD), patch("x", manager="c.io/d"), NOW),
        (patch("x", OLD), patch("x", OLD, manager="c.io/d"), OLD),
    ],
)
def test_the_time_changes_with_the_content(stored: Any, sent: Any, time: str) -> None:
    result = defaulted(job(sent), job(stored) if stored else None, NOW)
    assert result["spec"]["runtimePatches"][0]["time"] == time


def test_the_input_is_not_changed_and_an_unchanged_patch_without_time_gets_none() -> None:
    sent = job(patch("x"))
    assert defaulted(sent, job(patch("x")), NOW) == sent
    assert defaulted(sent, None, NOW) != sent
    assert sent == job(patch("x"))


@pytest.mark.parametrize("body", [{}, {"spec": None}, {"spec": 1}, {"spec": {"runtimePatches": 3}}, job(1, None, [])])
def test_what_is_malformed_is_passed_on(body: dict[str, Any]) -> None:
    assert defaulted(body, body, NOW) == body


def test_a_manager_that_is_no_text_is_left_to_the_schema() -> None:
    patches = [{"manager": []}, {"manager": {}}]
    job = {"metadata": {"name": "j"}, "spec": {"runtimePatches": patches}}
    stamped = defaulted(job, None, "2026-01-01T00:00:00Z")["spec"]["runtimePatches"]
    assert [patch["manager"] for patch in stamped] == [[], {}]


def sized(resources: Any = None, framework: str = "torch") -> Any:
    fields = {"resources": resources} if resources else {}
    return runtime(trainer(containers=[container("node", **fields)]), mlPolicy={framework: {}})


def processes(given: Any, known: Any, resources: Any = None, old: Any = None) -> Any:
    asked = {"numProcPerNode": given, **({"resourcesPerNode": resources} if resources else {})}
    sent = {"spec": {"runtimeRef": {"name": "r"}, "trainer": asked}}
    return defaulted(sent, old, NOW, known)["spec"]["trainer"].get("numProcPerNode")


GPUS = {"limits": {"nvidia.com/gpu": 4, "cpu": "8"}}
CORES = {"requests": {"cpu": "2500m"}}


@pytest.mark.parametrize(
    ("given", "known", "resources", "count"),
    [
        ("auto", sized(GPUS), None, 4),
        ("auto", sized(CORES), None, 3),
        ("auto", sized(), None, 1),
        ("auto", sized(CORES), {"limits": {"amd.com/gpu": "2"}}, 2),
        ("auto", sized(GPUS), {"requests": {"memory": "1Gi"}}, 4),
        ("auto", sized(GPUS), {"limits": {"nvidia.com/gpu": 2}}, 2),
        ("cpu", sized(GPUS), None, 8),
        ("cpu", sized(CORES), {"requests": {"cpu": 6}}, 6),
        ("cpu", sized(), None, 1),
        ("gpu", sized(GPUS), None, 4),
        ("gpu", sized(CORES), None, "gpu"),
        ("auto", None, None, None),
        ("cpu", None, None, "cpu"),
        ("gpu", None, None, "gpu"),
        ("auto", sized(GPUS, "jax"), None, 4),
        ("auto", sized(GPUS, "mpi"), None, "auto"),
        ("4", None, None, 4),
        ("4", sized(GPUS, "mpi"), None, 4),
        ("0", sized(), None, "0"),
        ("2147483648", sized(), None, "2147483648"),
        ("all", sized(GPUS), None, "all"),
        ("auto", sized(CORES), {"limits": {"cpu": "?"}}, 3),
        (7, sized(GPUS), None, 7),
    ],
)
def test_words_become_the_number_they_mean(given: Any, known: Any, resources: Any, count: Any) -> None:
    assert processes(given, known, resources) == count


@pytest.mark.parametrize("kept", [4, "auto", None])
def test_a_word_sent_again_means_what_is_stored(kept: Any) -> None:
    stored = {"spec": {"trainer": {"image": "i", **({"numProcPerNode": kept} if kept else {})}}}
    assert processes("auto", sized({"limits": {"nvidia.com/gpu": 8}}), old=stored) == kept


@pytest.mark.parametrize("text", ["8", "08", "auto", "gpu"])
def test_text_that_is_stored_is_kept_because_the_field_is_immutable(text: str) -> None:
    body = {"spec": {"trainer": {"numProcPerNode": text}}}
    assert defaulted(body, body, NOW) == body


def test_a_word_in_a_trainer_that_was_not_there_is_counted() -> None:
    assert processes("auto", sized(GPUS), old={"spec": {"suspend": True}}) == 4


@pytest.mark.parametrize(
    "spec",
    [
        {"trainer": {"numProcPerNode": ["auto"]}, "runtimeRef": {"name": "r"}},
        {"trainer": {"numProcPerNode": "auto"}, "runtimeRef": "r"},
        {"trainer": {"numProcPerNode": "auto"}, "runtimeRef": {"name": 1}},
        {"trainer": "auto"},
        {"trainer": {"numProcPerNode": 3}, "runtimeRef": {"name": "r"}},
    ],
)
def test_only_a_word_and_a_name_need_the_runtime(spec: Any) -> None:
    assert not wants_runtime({"spec": spec})
    defaulted({"spec": spec}, None, NOW)


def test_only_a_word_needs_the_runtime() -> None:
    assert wants_runtime({"spec": {"trainer": {"numProcPerNode": "gpu"}, "runtimeRef": {"name": "r"}}})


@pytest.mark.parametrize("template", [None, 1, {}, {"replicatedJobs": 1}, {"replicatedJobs": [1, {}, {"template": 1}]}])
def test_a_runtime_that_cannot_be_read_has_no_resources(template: Any) -> None:
    known = sized()
    spec = known.spec.model_copy(update={"template": known.spec.template.model_copy(update={"spec": template})})
    assert processes("auto", known.model_copy(update={"spec": spec})) == 1
