"""Updates of TrainJobs: what may change, when, and what never stands in the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, only, patch, pod_patch, runtime, train_job, trainer, verdict

GENERATIONS = {
    "podSpecOverrides": lambda **pod: [{"targetJobs": [{"name": "node"}], **pod}],
    "podTemplateOverrides": lambda **pod: [{"targetJobs": [{"name": "node"}], "spec": pod}],
    "runtimePatches": lambda **pod: [patch(pod_patch(**pod))],
}
TITLES = {
    "podSpecOverrides": "PodSpecOverrides",
    "podTemplateOverrides": "PodTemplateOverrides",
    "runtimePatches": "RuntimePatches",
}


def changed(field: str, **pod: Any) -> dict[str, Any]:
    return {field: GENERATIONS[field](**pod)}


@pytest.mark.parametrize("field", GENERATIONS)
@pytest.mark.parametrize(
    ("before", "after", "active", "message"),
    [
        ({}, {}, (), "can only be modified when the TrainJob is suspended before or after the update"),
        ({"suspend": True}, {}, (), None),
        ({}, {"suspend": True}, (), None),
        ({"suspend": True}, {"suspend": True}, (), None),
        ({"suspend": True}, {}, ("node",), "cannot be modified when the JobSet's ReplicatedJob node is still active"),
    ],
)
def test_overrides_change_only_while_suspended_and_inactive(
    field: str, before: dict[str, bool], after: dict[str, bool], active: tuple[str, ...], message: str | None
) -> None:
    old = train_job(**changed(field, nodeSelector={"a": "1"}), **before)
    new = train_job(**changed(field, nodeSelector={"a": "2"}), **after)
    answer = verdict(new, runtime(trainer()), old=old, active_replicated_jobs=active)
    if message is None:
        assert (answer.errors, answer.warnings) == ((), ())
    else:
        assert (only(answer.errors).path, only(answer.errors).message) == (
            f"spec.{field}",
            f"{TITLES[field]} {message}",
        )


@pytest.mark.parametrize("field", GENERATIONS)
def test_an_override_that_appears_or_goes_is_a_change(field: str) -> None:
    with_it, without = train_job(**changed(field, nodeSelector={"a": "1"})), train_job()
    assert only(verdict(with_it, runtime(trainer()), old=without).errors).path == f"spec.{field}"
    assert only(verdict(without, runtime(trainer()), old=with_it).errors).path == f"spec.{field}"


def test_another_order_is_a_change() -> None:
    patches = [patch(pod_patch(nodeSelector={"a": name}), manager=f"acme.io/{name}") for name in "ab"]
    old, new = train_job(runtimePatches=patches), train_job(runtimePatches=patches[::-1])
    assert "RuntimePatches can only be modified" in only(verdict(new, runtime(trainer()), old=old).errors).message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([patch(time="2026-01-01T00:00:00Z")], [patch(time="2027-01-01T00:00:00Z")]),
        ([], None),
        ([patch(pod_patch(nodeSelector={}))], [patch(pod_patch())]),
        ([patch(pod_patch(), hand="left")], [patch(pod_patch())]),
    ],
    ids=["time", "empty", "empty map", "unknown field"],
)
def test_what_means_the_same_is_no_change(before: Any, after: Any) -> None:
    old, new = train_job(runtimePatches=before), train_job(runtimePatches=after)
    assert verdict(new, runtime(trainer()), old=old).allowed


def test_every_generation_that_changed_is_named() -> None:
    new = train_job(**{key: value for field in GENERATIONS for key, value in changed(field, nodeSelector={}).items()})
    errors = verdict(new, runtime(trainer()), old=train_job()).errors
    assert [error.path for error in errors] == [f"spec.{field}" for field in GENERATIONS]


def test_holding_a_job_back_and_editing_its_metadata_never_depend_on_the_runtime() -> None:
    broken, job, held = runtime(trainer(replicas=2)), train_job(), train_job(suspend=True)
    for of in (broken, None):
        assert not verdict(job, of).allowed
        assert verdict(job, of, old=job).allowed
        assert verdict(held, of, old=job).allowed
        assert verdict(held, of, old=held).allowed
        assert not verdict(job, of, old=held).allowed


@pytest.mark.parametrize(
    ("field", "pod", "frozen"),
    [
        ("runtimePatches", {"affinity": {"nodeAffinity": {}}}, ["pod affinity"]),
        ("podSpecOverrides", {"serviceAccountName": "me"}, ["pod serviceAccountName"]),
        ("podTemplateOverrides", {"volumes": [{"name": "v", "emptyDir": {}}]}, ["pod volumes"]),
        (
            "runtimePatches",
            {"containers": [{"name": "side", "env": [{"name": "A", "value": "1"}]}]},
            ["pod containers"],
        ),
        ("runtimePatches", {"tolerations": [{"key": "k"}], "schedulingGates": [{"name": "g"}]}, []),
        ("podSpecOverrides", {"nodeSelector": {"a": "1"}}, []),
    ],
)
def test_what_job_set_keeps_in_a_job_set_that_exists_is_warned_about(
    field: str, pod: dict[str, Any], frozen: list[str]
) -> None:
    of = runtime(trainer(containers=[container(), container("side")]))
    answer = verdict(train_job(**changed(field, **pod), suspend=True), of, old=train_job(suspend=True))
    assert answer.allowed
    assert [warning.message.split(" of ")[0] for warning in answer.warnings] == [f"changes {name}" for name in frozen]
    assert all("recreated" in warning.fix for warning in answer.warnings)


def test_labels_of_pods_change_in_a_job_set_that_exists_and_those_of_jobs_do_not() -> None:
    def job(**template: Any) -> Any:
        return train_job(runtimePatches=[patch({"name": "node", "template": template})], suspend=True)

    old = train_job(suspend=True)
    of_pods = {"spec": {"template": {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "1"}}}}}
    assert verdict(job(**of_pods), runtime(trainer()), old=old).warnings == ()
    warning = only(verdict(job(metadata={"labels": {"a": "1"}}), runtime(trainer()), old=old).warnings)
    assert "Job template metadata.labels" in warning.message
