"""The corpus: what both sides are asked."""

from __future__ import annotations

import copy
from dataclasses import replace

from tests.compatibility.corpus.case import Case
from tests.compatibility.corpus.changes import changes
from tests.compatibility.corpus.generated import generated
from tests.compatibility.corpus.written import written

SEED = 20260806
GENERATED = 300
_TWIN = "-twin"


def corpus() -> list[Case]:
    """Return every case; the same on every run."""
    return [*written(), *changes(), *generated(GENERATED, SEED)]


def twin(case: Case) -> Case | None:
    """Return the same case with an empty trainer, where it has none and the runtime has a policy."""
    policy = (case.runtime or {}).get("spec", {}).get("mlPolicy")
    if not policy or "trainer" in case.train_job["spec"]:
        return None
    runtime, train_job = copy.deepcopy((case.runtime, case.train_job))
    name = case.name + _TWIN
    assert runtime is not None
    if runtime["kind"] == "TrainingRuntime":
        runtime["metadata"]["namespace"] = name
    else:
        runtime["metadata"]["name"] = f"{name}-runtime"
        if train_job["spec"]["runtimeRef"]["name"] == f"{case.name}-runtime":
            train_job["spec"]["runtimeRef"]["name"] = f"{name}-runtime"
    train_job["metadata"]["namespace"] = name
    train_job["spec"]["trainer"] = {}
    return replace(case, name=name, runtime=runtime, train_job=train_job, updates=(), runtime_update=None)
