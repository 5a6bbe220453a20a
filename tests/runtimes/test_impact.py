"""Whom a change reaches: those that have not started; the others keep their snapshot."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.changes.impact import reached, read_recorded
from trainyard.jobs.runtimes.changes.impact_report import as_json, as_markdown, as_text


def job(name: str, runtime: str, **others: Any) -> dict[str, Any]:
    reference = {"name": runtime, **({"kind": others.pop("kind")} if "kind" in others else {})}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"runtimeRef": reference},
        **others,
    }


OVER = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
STARTED = {"status": {"jobsStatus": [{"name": "node", "active": 1}]}}
RECORDED = [
    job("new", "mine"),
    job("done", "mine", **OVER),
    job("running", "mine-1.0", **STARTED),
    job("suspended", "mine"),
    job("other", "other"),
    job("namespaced", "mine", kind="TrainingRuntime"),
    {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "suspended-runtime-snapshot", "namespace": "vision"},
    },
    {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "settings", "namespace": "vision"}},
]


def listed(kind: str = "List") -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": RECORDED})


def test_those_that_name_it_are_listed_with_what_happens() -> None:
    found = reached(read_recorded({"jobs.yaml": listed()}), ["mine", "mine-1.0"])
    assert [(each.job, each.runtime, each.effect.value) for each in found] == [
        ("vision/new", "mine", "changes"),
        ("vision/running", "mine-1.0", "keeps its snapshot"),
        ("vision/suspended", "mine", "keeps its snapshot"),
        ("vision/done", "mine", "over"),
    ]
    assert [each.job for each in reached(read_recorded({"jobs.yaml": listed()}), ["mine-1.0"])] == ["vision/running"]


def test_lists_of_kubectl_and_single_documents_are_read() -> None:
    typed = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJobList", "items": []}
    typed["items"] = [{key: job("a", "mine")[key] for key in ("metadata", "spec")}]
    found = reached(read_recorded({"a": yaml.safe_dump(typed), "b": yaml.safe_dump(job("b", "mine"))}), ["mine"])
    assert [each.job for each in found] == ["vision/a", "vision/b"]
    assert read_recorded({"empty": ""}).train_jobs == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "jobs is not valid YAML"),
        ("- a", "Entry 1 of jobs is not"),
        ("kind: TrainJob", "Entry 1 of jobs is not"),
    ],
)
def test_what_is_no_list_of_objects_is_refused(text: str, message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        read_recorded({"jobs": text})


def test_a_job_that_is_out_of_shape_names_nothing() -> None:
    wrong = [{**job("a", "mine"), "spec": spec} for spec in (None, [], {"runtimeRef": "mine"}, {})]
    assert reached(read_recorded({"jobs": yaml.safe_dump_all(wrong)}), ["mine"]) == []


def test_reports_read_well() -> None:
    found = reached(read_recorded({"jobs.yaml": listed()}), ["mine"])
    assert as_text(["mine"], found).splitlines() == [
        "3 TrainJobs name mine: 1 not started, 1 started, 1 over",
        "  vision/new (runtime mine): not started yet: uses the runtime at its start",
        "  vision/suspended (runtime mine): started: keeps its runtime",
        "  vision/done (runtime mine): over",
    ]
    assert "| vision/new | mine | not started yet: uses the runtime at its start |" in as_markdown(["mine"], found)
    assert as_json(["mine"], found)["jobs"][0] == {"job": "vision/new", "runtime": "mine", "effect": "changes"}
    assert as_text(["a", "b"], []) == "0 TrainJobs name a or b"
    assert as_text(["a"], found * 100).endswith("and 100 more")
