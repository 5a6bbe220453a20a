"""The comparison of two versions hides no difference that its list of intended ones does not name."""

from __future__ import annotations

import re
from collections import Counter

from tests.parity import Intended, compare, facts_of, intended_differences

INTENDED = [Intended(re.compile("render"), re.compile(r"^\+ NEW-001 "), "a new rule")]


def test_only_listed_differences_are_intended() -> None:
    before = Counter(["exit code 0", "OLD-001 error a"])
    after = Counter(["exit code 1", "OLD-001 error a", "NEW-001 error a"])
    explained, unexplained = compare("render", before, after, INTENDED)
    assert explained == {"a new rule": 1}
    assert unexplained == ["- exit code 0", "+ exit code 1"]
    assert set(compare("convert", before, after, INTENDED)[1]) == {*unexplained, "+ NEW-001 error a"}


def test_an_answer_is_its_findings_and_values_without_texts() -> None:
    finding = {"rule": "A-1", "severity": "error", "file": "f", "object": "o", "path": "spec.a", "message": "text"}
    job = {
        "trainJob": "a/b",
        "errors": [],
        "objects": [{"kind": "JobSet", "metadata": {"name": "b"}, "spec": {"x": 1}}],
    }
    assert list(facts_of({"results": [finding]}, "")) == [
        ".results[]",
        "keys of .results[]: file, message, object, path, rule, severity",
        "A-1 error f o spec.a .results",
    ]
    assert ".results[a/b].objects[JobSet b].spec.x: 1" in set(facts_of({"results": [job]}, ""))
    rejected = {"trainJob": "a/b", "errors": [{"rule": None, "path": "spec.a", "message": "text"}], "objects": []}
    assert list(facts_of({"results": [rejected]}, "")) == [".results[]", ".results[a/b] rejected: spec.a"]


def test_a_job_that_one_version_rejects_is_one_difference() -> None:
    before = Counter([".results[a/b].objects[JobSet b].kind", ".results[a/b].objects[JobSet b].name"])
    assert compare("render", before, Counter([".results[a/b] rejected: spec"]), [])[1] == [
        "+ .results[a/b] rejected: spec"
    ]


def test_each_intended_difference_has_a_reason() -> None:
    assert all(each.reason for each in intended_differences())
