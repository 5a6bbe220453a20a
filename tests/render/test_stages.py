"""Rendering in stages: validation and building read a resolved job and do not modify it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.render.builders import initializer, runtime, torch, train_job, trainer
from trainyard.api import ClusterTrainingRuntime, Runtime, TrainJob, parse
from trainyard.data import data_folder
from trainyard.jobs.render.gang_members import gang_of
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.overrides import pod_template_overrides
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.template import template_of
from trainyard.jobs.render.validation import framework_of, gang_schedulers_of, job_findings
from trainyard.jobs.runtimes.catalog_loader import load_catalog

CATALOG = {body["metadata"]["name"]: body for body in load_catalog(data_folder("runtimes")).objects()}
TRAINER = {
    "image": "image:2",
    "command": ["python", "train.py"],
    "env": [{"name": "A", "value": "1"}],
    "resourcesPerNode": {"limits": {"nvidia.com/gpu": "2"}},
    "numNodes": 3,
}


def resolved(job: TrainJob, of: Runtime) -> ResolvedJob:
    assert job.spec
    resolution = Resolution(
        job, job.spec, of, RenderContext(default_queue="q"), tuple(pod_template_overrides(job.spec))
    )
    framework_of(of).resolve(resolution)
    return resolution.resolved()


def built(job: ResolvedJob) -> list[Any]:
    builder = JobSetBuilder(job)
    bodies = [*framework_of(job.runtime).build(builder)]
    for scheduler in gang_schedulers_of(job.runtime):
        bodies += scheduler.build(builder)
    return [*bodies, builder.job_set()]


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("spec", [{}, {"trainer": TRAINER}])
def test_validating_and_building_leave_the_resolved_job_as_it_is(name: str, spec: dict[str, Any]) -> None:
    of = parse(ClusterTrainingRuntime, CATALOG[name])
    job = resolved(train_job(**spec), of)
    before = json.dumps([job.job_set_spec, [(pod_set.count, pod_set.min_count) for pod_set in job.pod_sets]])
    list(job_findings(job))
    first = json.dumps(built(job))
    assert json.dumps(built(job)) == first
    assert json.dumps([job.job_set_spec, [(pod_set.count, pod_set.min_count) for pod_set in job.pod_sets]]) == before


@pytest.mark.parametrize("name", CATALOG)
def test_the_gang_of_a_resolved_job_is_the_gang_of_its_job_set(name: str) -> None:
    job = resolved(train_job(trainer=TRAINER), parse(ClusterTrainingRuntime, CATALOG[name]))
    builder = JobSetBuilder(job)
    framework_of(job.runtime).build(builder)
    builder.set_counts()
    for scheduler in gang_schedulers_of(job.runtime):
        scheduler.build(builder)
    assert gang_of(builder.job_set_spec, builder.pod_sets) == job.gang


def test_an_unchanged_template_is_shared_with_the_runtime() -> None:
    of = torch()
    assert resolved(train_job(trainer={"numNodes": 2, "image": "other"}), of).job_set_spec is template_of(of).spec


def test_changes_are_made_to_a_copy_of_the_template() -> None:
    of = runtime(initializer(), trainer())
    before = json.dumps(template_of(of).spec)
    override = {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"a": "b"}}}
    job = resolved(train_job(podTemplateOverrides=[override], trainer=TRAINER), of)
    assert json.dumps(template_of(of).spec) == before
    assert [pod_set.count for pod_set in job.pod_sets] == [1, 3]
    assert job.trainer
    assert job.trainer.pod["nodeSelector"] == {"a": "b"}
    assert job.trainer.main_container
    assert job.trainer.main_container["resources"] == TRAINER["resourcesPerNode"]


def test_patched_jobs_keep_their_counts_when_one_is_removed() -> None:
    of = runtime(trainer(), initializer())
    spec = train_job().spec
    assert spec
    resolution = Resolution(train_job(), spec, of, RenderContext())
    resolution.set_count("node", 4, 2)
    resolution.remove("dataset-initializer")
    resolution.set_resources("node", "node", {"limits": {"cpu": "1"}})
    resolution.set_ancestor("node", None)
    job = resolution.resolved()
    assert [(pod_set.name, pod_set.count, pod_set.min_count) for pod_set in job.pod_sets] == [("node", 4, 2)]
    assert job.trainer is None
    assert len(template_of(of).jobs) == 2
    assert "resources" not in template_of(of).jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]
