"""A job in a queue of Kueue runs the pods that Kueue counts, or is rejected."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.compatibility.kueue.kueue_questions import Question, comparable, questions, text
from trainyard.jobs.render.kueue import CountedPodSet, counted_pod_sets, counting_error
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.jobs.render.template import template_of
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.go import find_go
from trainyard.scheduling.queues.pod_requests import requests_of

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "kueue"


@pytest.fixture(scope="module")
def asked() -> list[Question]:
    return [question for question in questions() if template_of(question.runtime).jobs]


def test_every_rendered_job_has_the_pods_that_kueue_counts(asked: list[Question]) -> None:
    outcomes: Counter[str] = Counter()
    for question in asked:
        result = render(question.train_job, question.runtime, RenderContext())
        outcomes[type(result).__name__] += 1
        if isinstance(result, Rendered) and result.objects:  # a job of another cluster has none
            assert question.train_job.spec is not None
            rendered = _pod_sets(result.objects[-1]["spec"]["replicatedJobs"])
            counted = counted_pod_sets(question.train_job.spec, question.runtime)
            assert comparable(counted) == comparable(rendered), question.name
    assert outcomes["Rendered"] >= 600, outcomes


def test_a_rejection_for_kueue_names_path_values_and_fix(asked: list[Question]) -> None:
    found = 0
    for question in asked:
        verdict = validate(question.train_job, question.runtime, RenderContext())
        errors = [error for error in verdict.errors if "Kueue" in error.message]
        found += bool(errors)
        for error in errors:
            assert error.path.startswith("spec."), error
            assert "kueue.x-k8s.io/queue-name" in error.fix, error
    assert found >= 30


@pytest.mark.cluster
def test_the_pods_are_those_of_the_library_that_kueue_uses(asked: list[Question]) -> None:
    answers = _ask(asked)
    assert len(answers) == len(asked) >= 1000
    for question, answer in zip(asked, answers, strict=True):
        assert question.train_job.spec is not None
        refused = answer.get("error")
        assert bool(refused) == (counting_error(question.runtime) is not None), (question.name, refused)
        if refused:
            continue
        counted = counted_pod_sets(question.train_job.spec, question.runtime)
        theirs = tuple(
            CountedPodSet(
                entry["name"], entry["replicas"], entry["count"], requests_of(entry["pod"]), _claims(entry["pod"])
            )
            for entry in answer["podSets"]
        )
        assert comparable(counted) == comparable(theirs), question.name


def _pod_sets(jobs: list[dict]) -> tuple[CountedPodSet, ...]:
    found = []
    for job in jobs:
        spec = job["template"]["spec"]
        pod = spec["template"]["spec"]
        count = min(spec["parallelism"], spec["completions"])
        found.append(CountedPodSet(job["name"], job.get("replicas", 1), count, requests_of(pod), _claims(pod)))
    return tuple(found)


def _claims(pod: dict) -> frozenset[str]:
    containers = (*pod.get("initContainers", ()), *pod["containers"])
    return frozenset(
        claim["name"] for container in containers for claim in container.get("resources", {}).get("claims", ())
    )


def _ask(asked: list[Question]) -> list[dict]:
    digest = hashlib.sha256(b"".join((PROGRAM / name).read_bytes() for name in ("main.go", "go.sum"))).hexdigest()[:16]
    program = cache_home() / "compatibility" / f"kueue-{digest}"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        find_go().run(PROGRAM, "build", "-o", str(program), ".")
    sent = json.dumps([text(question) for question in asked])
    answer = subprocess.run([program], input=sent, capture_output=True, text=True, check=True)
    found: list[dict] = json.loads(answer.stdout)
    return found
