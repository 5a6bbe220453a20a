"""The generator: the same seed makes the same objects, and they are as different as they should be."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.policy.equivalence.proof import corpus, subjects_of
from tests.policy.equivalence.worlds import USERS

pytestmark = pytest.mark.slow

COUNT = 2500


def test_a_seed_makes_the_same_objects_every_time() -> None:
    first, second = ([str(subject) for subject in subjects_of(7, COUNT)[0]] for _ in range(2))
    assert first == second
    assert len(first) == COUNT


def test_seeds_differ() -> None:
    first, second = ({json.dumps(subject.body) for subject in subjects_of(seed, COUNT)[0]} for seed in (1, 2))
    assert len(first - second) > COUNT / 10


def test_objects_are_of_every_kind_operation_user_and_namespace() -> None:
    subjects, worlds = subjects_of(1, COUNT)
    operations = Counter(subject.operation for subject in subjects)
    assert min(operations[name] for name in ("CREATE", "UPDATE", "DELETE")) > 10
    assert {subject.user for subject in subjects} == set(USERS)
    assert {subject.home for subject in subjects} == set(worlds.homes)
    assert {subject.platform for subject in subjects} == set(worlds.platforms)
    cases, others, _ = corpus()
    bodies = [*(case.content.object or case.content.old_object or {} for case in cases), *others.values()]
    kinds = {(body["apiVersion"], body["kind"]) for body in bodies}
    assert kinds == {(subject.shape["apiVersion"], subject.shape["kind"]) for subject in subjects}
    assert {
        ("v1", "Pod"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    } < kinds


def test_mutants_leave_the_corpus_as_it_is() -> None:
    again, once = (list(subjects_of(7, COUNT)[0])[:800] for _ in range(2))
    assert [subject.body for subject in once] == [subject.body for subject in again]
