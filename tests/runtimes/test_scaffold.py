"""New runtimes and versions: drafts that work as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.conftest import SHIPPED
from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.jobs.runtimes.catalog import RuntimeVersion
from trainyard.jobs.runtimes.catalog_loader import load_catalog, runtimes_of
from trainyard.jobs.runtimes.folder import CatalogFolder, write_folder
from trainyard.jobs.runtimes.runtime_scaffold import NewRuntime, known_runtimes, new_version
from trainyard.jobs.runtimes.samples import sample_train_job

EMPTY = CatalogFolder(Path("/nowhere"), {})
KNOWN = known_runtimes(EMPTY, [SHIPPED])
OWNED: dict[str, Any] = {"owner": "team", "summary": "Our own"}
FRAMEWORKS = sorted(
    {each.versions[-1].body["metadata"]["labels"]["trainer.kubeflow.org/framework"] for each in KNOWN.runtimes}
)


def made(folder: CatalogFolder = EMPTY, **wanted: Any) -> RuntimeVersion:
    """Return the draft for a request."""
    after = new_version(folder, NewRuntime(**{"name": "mine", **wanted}), KNOWN).after
    findings: list[Finding] = []
    (runtime,) = runtimes_of(after, findings)
    assert findings == []
    return runtime.versions[-1]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_new_runtime_of_each_framework_works_as_it_is(framework: str) -> None:
    version = made(framework=framework, image="ghcr.io/team/train:1.2", **OWNED)
    assert (version.object_name, version.released, version.changes[:11]) == ("mine-1.0", None, "Copied from")
    job = parse(TrainJob, sample_train_job(version.manifest()))
    outcome = render(job, parse(ClusterTrainingRuntime, version.manifest()), RenderContext())
    assert isinstance(outcome, Rendered), outcome
    (job_set,) = [each for each in outcome.objects if each["kind"] == "JobSet"]
    assert "ghcr.io/team/train:1.2" in str(job_set["spec"]["replicatedJobs"][-1])


@pytest.mark.parametrize(
    ("framework", "copied"), [("torch", "torch-distributed"), ("mpi", "mpi-openmpi"), ("tensorflow", "tensorflow")]
)
def test_the_plainest_runtime_of_a_framework_is_the_usual_one(framework: str, copied: str) -> None:
    assert made(framework=framework, **OWNED).changes == made(source=copied, **OWNED).changes


@pytest.mark.parametrize("name", [runtime.name for runtime in KNOWN.runtimes])
def test_every_shipped_runtime_can_be_copied(name: str) -> None:
    version = made(source=name, **OWNED)
    source = next(runtime for runtime in KNOWN.runtimes if runtime.name == name).versions[-1]
    assert version.body["spec"] == source.body["spec"]


def test_the_next_version_is_a_copy_of_the_newest(catalog: CatalogFolder) -> None:
    version = made(catalog, nodes=4, gang="none", changes="Four nodes, no gang")
    assert (version.version, version.changes) == ("1.3", "Four nodes, no gang")
    assert version.body["spec"]["mlPolicy"]["numNodes"] == 4
    assert "podGroupPolicy" not in version.body["spec"]


@pytest.mark.parametrize(
    ("wanted", "policy"),
    [
        ({"gang": "coscheduling"}, {"coscheduling": {}}),
        ({"gang": "kai"}, {"kai": {}}),
        ({"tier": 2}, {"volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}}}),
    ],
)
def test_the_gang_is_chosen(wanted: dict[str, Any], policy: dict[str, Any]) -> None:
    assert made(framework="torch", **OWNED, **wanted).body["spec"]["podGroupPolicy"] == policy


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"name": "Mine"}, "'Mine' is not a valid runtime name"),
        ({"name": "x" * 51}, "at most 50 characters"),
        ({"version": "1"}, "'1' is not a valid version"),
        ({"gang": "slurm"}, "Gang scheduler 'slurm' is not supported"),
        ({"nodes": 0}, "--nodes 0 is invalid"),
        ({"tier": 0}, "--tier 0 is invalid"),
        ({"tier": 1, "gang": "kai"}, "--tier requires the gang scheduler volcano"),
        ({"source": "plain", "framework": "jax"}, "are mutually exclusive"),
        ({"source": None, "framework": None}, "mine has no version to copy"),
        ({"source": "nobody"}, "Runtime 'nobody' does not exist"),
        ({"source": "plain@9.9"}, "plain has no version '9.9'"),
        ({"source": None, "framework": "cobol"}, "No runtime of framework 'cobol'"),
        ({"owner": None}, "add --owner and --summary"),
        ({"name": "mpi-distributed"}, "is used by runtime mpi-openmpi"),
        ({"name": "plain-1.0"}, "is used by runtime plain"),
    ],
)
def test_an_impossible_request_is_refused(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        made(**{"source": "plain", **OWNED, **wanted})


def test_a_number_that_is_taken_or_was_is_refused(catalog: CatalogFolder) -> None:
    with pytest.raises(TrainyardError, match=r"mine 1.1 is taken\nFix: use 1.3"):
        made(catalog, version="1.1")


def test_a_draft_loads_from_a_new_folder(tmp_path: Path) -> None:
    step = new_version(CatalogFolder(tmp_path, {}), NewRuntime("mine", framework="jax", **OWNED), KNOWN)
    write_folder(step.before, step.after)
    assert [runtime.name for runtime in load_catalog([SHIPPED, tmp_path], ("mine",)).runtimes] == ["mine"]
