"""The corpus is what it claims to be, and the page says what the list of differences says."""

from __future__ import annotations

import json
from collections import Counter

from tests.compatibility.corpus import corpus, twin
from tests.compatibility.difference_table import BEGIN, END, PAGE, updated
from tests.compatibility.differences import DIFFERENCES

FRAMEWORKS = {"torch", "mpi", "jax", "xgboost", "flux"}


def test_the_corpus_is_the_same_on_every_run() -> None:
    first, second = (json.dumps([case.documents() for case in corpus()]) for _ in range(2))
    assert first == second


def test_the_corpus_is_large_and_its_cases_are_distinct() -> None:
    cases = corpus()
    assert len(cases) >= 500
    assert len({case.name for case in cases}) == len(cases)
    assert all(len(f"{case.name}-twin") <= 63 for case in cases)


def test_the_corpus_covers_every_framework_gang_and_kind_of_change() -> None:
    cases = corpus()
    specs = [case.runtime["spec"] for case in cases if case.runtime]
    frameworks = Counter(name for spec in specs for name in spec.get("mlPolicy", {}))
    assert all(frameworks[name] >= 25 for name in FRAMEWORKS), frameworks
    gangs = Counter(name for spec in specs for name in spec.get("podGroupPolicy", {}))
    assert gangs["volcano"] >= 50
    assert gangs["coscheduling"] >= 50
    fields = Counter(name for case in cases for name in case.train_job["spec"])
    assert all(fields[name] >= 30 for name in ("trainer", "initializer", "runtimePatches", "suspend")), fields
    assert sum(len(case.updates) for case in cases) >= 30


def test_a_twin_differs_by_its_trainer_only() -> None:
    case = next(case for case in corpus() if case.name == "framework-torch-bare")
    other = twin(case)
    assert other is not None
    assert other.train_job["spec"] == {**case.train_job["spec"], "trainer": {}}
    assert other.runtime is not None
    assert case.runtime is not None
    assert other.runtime["spec"] == case.runtime["spec"]


def test_identifiers_of_differences_are_distinct() -> None:
    assert len({entry.identifier for entry in DIFFERENCES}) == len(DIFFERENCES)


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert BEGIN in page
    assert END in page
    assert page == updated(page), "write it again: python -m tests.compatibility.difference_table"
