"""Clients with upstream's Go types read a TrainJob, change a part and write the whole back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from tests.compatibility.corpus import corpus
from tests.compatibility.go_client import sent_back
from tests.support import ROOT
from trainyard.api import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainyard.api.go_types import RELEASES, known
from trainyard.api.verdicts import decoded
from trainyard.jobs.render.defaults import defaulted
from trainyard.jobs.render.typed_clients import normalized, normalized_runtime, with_lost_fields

Body = dict[str, Any]
NOW = "2026-06-01T00:00:00Z"
MODELS = {"TrainingRuntime": TrainingRuntime, "ClusterTrainingRuntime": ClusterTrainingRuntime}
PATCH = {
    "manager": "acme.io/team",
    "time": NOW,
    "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}},
}
KUEUES = {
    "targetJobs": [{"name": "node"}],
    "metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}},
    "spec": {"nodeSelector": {"pool": "h100"}},
}
USERS = {"targetJobs": [{"name": "node"}], "spec": {"serviceAccountName": "mine"}}


def job(**spec: Any) -> Body:
    metadata = {"name": "job", "namespace": "team"}
    return {"kind": "TrainJob", "metadata": metadata, "spec": {"runtimeRef": {"name": "r"}, "suspend": True, **spec}}


def by_client(body: Body, release: str = "2.1", /, **changes: Any) -> Body:
    """Return an update by a client of a release: what it does not know is gone."""
    return {**body, "spec": {**known("trainer.TrainJobSpec", copy.deepcopy(body["spec"]), release), **changes}}


def runtimes() -> list[Body]:
    return [body for file in sorted(ROOT.glob("runtimes/*/*.yaml")) for body in yaml.safe_load_all(file.read_text())]


def cases() -> list[Body]:
    return [body for case in corpus() for body in case.documents()]


@pytest.mark.parametrize("release", RELEASES)
def test_an_update_without_a_change_changes_nothing(release: str) -> None:
    jobs = [defaulted(decoded(TrainJob, body), None, NOW) for body in cases() if body["kind"] == "TrainJob"]
    for stored in jobs:
        sent = sent_back(stored, release)
        unknown = {name: value for name, value in stored["spec"].items() if name not in known_names(stored, release)}
        again = defaulted(decoded(TrainJob, {**sent, "spec": {**sent["spec"], **unknown}}), stored, NOW)
        assert again["spec"] == stored["spec"], stored["metadata"]["namespace"]


def known_names(body: Body, release: str) -> set[str]:
    return set(known("trainer.TrainJobSpec", body["spec"], release))


def test_an_update_of_a_runtime_without_a_change_changes_nothing() -> None:
    bodies = [body for body in cases() if body["kind"] in MODELS] + runtimes()
    for sent in bodies:
        stored = normalized_runtime(decoded(MODELS[sent["kind"]], sent), None)
        if known("trainer.TrainingRuntimeSpec", stored["spec"], "2.3") != stored["spec"]:
            continue
        back = decoded(MODELS[sent["kind"]], sent_back(stored, "2.3"))
        assert normalized_runtime(back, stored) == stored, stored["metadata"]


def test_released_runtimes_are_stored_as_they_were_released() -> None:
    assert runtimes()
    for body in runtimes():
        assert normalized_runtime(body, None) == body


def test_a_draft_that_is_released_is_stored_as_it_was_released() -> None:
    draft = next(body for body in cases() if body["kind"] in MODELS and normalized_runtime(body, None) != body)
    stored = normalized_runtime(draft, None)
    released = {**draft, "metadata": {**draft["metadata"], "annotations": {"trainyard.dev/released": "hash"}}}
    assert normalized_runtime(released, stored) == released
    assert normalized_runtime({**released, "spec": stored["spec"]}, released) == released
    next_version = {**stored, "metadata": {**draft["metadata"], "annotations": {"trainyard.dev/released": "other"}}}
    assert normalized_runtime(next_version, released) == next_version


def test_a_job_stored_before_is_not_changed_by_an_update() -> None:
    old = job(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8, "cpu": "1000m"}}, "args": [], "env": []})
    new = job(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": "8", "cpu": "1"}}})
    assert normalized(new, old) == old


@pytest.mark.parametrize(
    ("release", "changes"),
    [
        ("2.1", {"podTemplateOverrides": [KUEUES]}),
        ("2.1", {"suspend": False}),
        ("2.1", {"podTemplateOverrides": [KUEUES], "suspend": False}),
        ("2.3", {"runtimePatches": [PATCH, {"manager": "kueue.x-k8s.io/manager"}]}),
    ],
)
def test_fields_that_a_client_does_not_know_are_kept(release: str, changes: Body) -> None:
    old = job(
        runtimePatches=[PATCH],
        podSpecOverrides=[{"targetJobs": [{"name": "node"}], "nodeSelector": {"a": "b"}}],
        trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}},
    )
    sent = by_client(old, release, **changes)
    wanted, warnings = with_lost_fields(sent, old, "")
    assert wanted["spec"] == {**old["spec"], **changes}
    dropped = sorted({"runtimePatches", "podSpecOverrides"} - set(known("trainer.TrainJobSpec", old["spec"], release)))
    assert sorted(warning.path for warning in warnings) == [f"spec.{name}" for name in dropped]
    assert f"v{release}" in warnings[0].message


def test_what_kueue_removes_of_its_own_is_removed() -> None:
    old = job(runtimePatches=[PATCH], podTemplateOverrides=[USERS, KUEUES])
    wanted, _ = with_lost_fields(by_client(old, podTemplateOverrides=[USERS]), old, "")
    assert wanted["spec"] == {**old["spec"], "podTemplateOverrides": [USERS]}
    gone, _ = with_lost_fields(by_client(job(runtimePatches=[PATCH], podTemplateOverrides=[KUEUES])), old, "")
    assert "runtimePatches" not in gone["spec"]  # the user's override went too: not what Kueue does


def test_a_deadline_is_kept() -> None:
    old = job(activeDeadlineSeconds=60)
    wanted, warnings = with_lost_fields(by_client(old, suspend=False), old, "")
    assert wanted["spec"] == {**old["spec"], "suspend": False}
    assert [warning.path for warning in warnings] == ["spec.activeDeadlineSeconds"]


def test_metadata_alone_is_a_change_of_the_client() -> None:
    old = job(runtimePatches=[PATCH])
    sent = by_client(old)
    sent["metadata"] = {**sent["metadata"], "labels": {"a": "b"}}
    assert with_lost_fields(sent, old, "")[0]["spec"] == old["spec"]


@pytest.mark.parametrize("manager", ["kubectl-edit", "kubectl-patch", "argocd-controller"])
def test_a_client_that_names_itself_removes_what_it_leaves_out(manager: str) -> None:
    old = job(runtimePatches=[PATCH])
    sent = by_client(old, suspend=False)
    assert with_lost_fields(sent, old, manager) == (sent, ())


@pytest.mark.parametrize(
    "sent",
    [
        job(),  # nothing but the removal
        job(runtimePatches=[PATCH]),  # a part of it
        job(trainer={"numNodes": 2}, suspend=False),  # something else as well
        job(podTemplateOverrides=[USERS], suspend=False),  # an entry that is not Kueue's
    ],
)
def test_a_deliberate_removal_removes(sent: Body) -> None:
    old = job(runtimePatches=[PATCH, {**PATCH, "manager": "b.io/b"}], activeDeadlineSeconds=5)
    assert with_lost_fields(sent, old, "") == (sent, ())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"spec": None},
        {"spec": 1},
        {"metadata": 1, "spec": {"podTemplateOverrides": 3}},
        {"metadata": {"annotations": 1}, "spec": {}},
        {"spec": {**job()["spec"], "podTemplateOverrides": [{"metadata": {"labels": 1}}]}},
    ],
)
def test_malformed_objects_are_left_to_the_schema(body: Body) -> None:
    old = job(runtimePatches=[PATCH])
    assert with_lost_fields(body, old, "") == (body, ())
    assert with_lost_fields(body, None, "") == (body, ())
    assert normalized(body, old) == body
    assert normalized_runtime(body, None) == body
