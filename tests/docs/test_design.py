"""Each page of docs/design begins with numbered invariants, each with tests that exist; decisions are short."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT

FOLDER = ROOT / "docs" / "design"
PAGES = sorted(FOLDER.glob("*.md"))
DECISIONS = sorted((FOLDER / "decisions").iterdir()) if (FOLDER / "decisions").is_dir() else []
_SECTION = re.compile(r"# .+\n\n## Invariants\n(?P<lines>(?:.+\n)+)")
_TEST = r"`tests/[\w/]+\.py::\w+`"
_INVARIANT = re.compile(rf"(?P<number>\d+)\. [A-Z`].+\. (?P<tests>{_TEST}(?:, {_TEST})*)")
_MOST_LINES = 14
"""Longer decisions are not read."""


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    """Return the names of the test functions of a module; empty: there is no such module."""
    body = ast.parse(path.read_bytes()).body if path.is_file() else []
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_pages_and_decisions_are_there() -> None:
    assert len(PAGES) >= 7
    assert len(DECISIONS) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_numbered_invariants_and_the_tests_that_hold_them(page: Path) -> None:
    section = _SECTION.match(page.read_text())
    assert section, "write ## Invariants directly below the title"
    entries = [_INVARIANT.fullmatch(line) for line in section["lines"].splitlines()]
    numbers = [int(entry["number"]) if entry else None for entry in entries]
    assert numbers == list(range(1, len(entries) + 1)), "write NUMBER. Sentence. `tests/path.py::test_name`, …"
    tests = [name for entry in entries if entry for name in re.findall(r"`(.+?)`", entry["tests"])]
    missing = [name for name in tests if name.partition("::")[2] not in names_of_tests(ROOT / name.partition("::")[0])]
    assert missing == []


def test_decisions_are_numbered_without_gaps() -> None:
    names = [re.fullmatch(r"(\d{3})-[a-z0-9]+(?:-[a-z0-9]+)*\.md", path.name) for path in DECISIONS]
    numbers = [int(name[1]) if name else path.name for name, path in zip(names, DECISIONS, strict=True)]
    assert numbers == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.stem)
def test_a_decision_is_short_and_names_context_decision_and_consequences(decision: Path) -> None:
    lines = decision.read_text().splitlines()
    assert len(lines) <= _MOST_LINES
    assert lines[0].startswith(f"# {int(decision.name[:3])}. "), "begin with # NUMBER. Title"
    assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
