"""Remembering what depends only on a runtime."""

from __future__ import annotations

import gc
import inspect
from typing import Any

from tests.render.builders import objects, runtime, train_job, trainer
from trainyard.jobs.render.runtime_cache import once_per_runtime


def test_an_answer_is_computed_once_for_each_runtime_and_forgotten_with_it() -> None:
    calls: list[str] = []

    @once_per_runtime
    def name(of: Any) -> str:
        calls.append(of.metadata.name)
        return str(of.metadata.name)

    first, second = runtime(trainer()), runtime(trainer())
    assert [name(first), name(first), name(second)] == ["runtime"] * 3
    assert len(calls) == 2
    for _ in range(50):
        name(runtime(trainer()))
        gc.collect(0)
    assert len(calls) == 52
    results = inspect.getclosurevars(name).nonlocals["results"]
    assert len(results) <= 3


def test_a_template_is_copied_exactly() -> None:
    huge = runtime(trainer(pod={"affinity": {"weight": 10**30}}))
    pod = objects(train_job(), huge)["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["affinity"] == {"weight": 10**30}


def test_empty_dependencies_are_left_out_as_job_set_refuses_them() -> None:
    job = objects(train_job(), runtime(trainer(dependsOn=[])))["JobSet"]["spec"]["replicatedJobs"][0]
    assert "dependsOn" not in job
