"""Paths and names in docs/architecture.md exist, and the page stays short; the stable interfaces are listed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = ROOT / "docs" / "architecture.md"
_SECTION = "## Where is it decided?"
_ROW = re.compile(r"^\| [^|]+\? \| \[[^\]]+\]\((?P<path>[^)]+)\) \| (?:`(?P<name>\w+)`)? ?\| (?P<note>[^|]+) \|$")
_PATH = re.compile(r"`([\w./-]+/[\w./-]+)`")


def answers() -> list[str]:
    """Return the rows of the table of questions."""
    section = PAGE.read_text().partition(_SECTION)[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def names_in(path: Path) -> set[str]:
    """Return the names that a module defines or exports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
    return names


def test_the_page_is_read_in_five_minutes() -> None:
    assert len(PAGE.read_text().split()) <= 900


def test_every_package_has_its_line() -> None:
    section = PAGE.read_text().partition("## Homes")[2].partition("\n## ")[0]
    packages = {path.parent.name for path in (ROOT / "trainyard").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == packages


def test_every_question_is_there() -> None:
    assert len(answers()) >= 15


@pytest.mark.parametrize("row", answers())
def test_an_answer_names_what_exists(row: str) -> None:
    found = _ROW.match(row)
    assert found, "write | question? | [file](path) | `name` | note |"
    path = (PAGE.parent / found["path"]).resolve()
    assert path.is_file(), found["path"]
    if found["name"]:
        assert found["name"] in names_in(path), f"{found['path']} has no {found['name']}"
    missing = [each for each in _PATH.findall(found["note"]) if not (ROOT / each).exists()]
    assert missing == []


def test_every_component_is_a_stable_interface() -> None:
    section = (PAGE.parent / "design" / "stable-interfaces.md").read_text()
    lines = (ROOT / "tests/components/golden/interface.txt").read_text().splitlines()
    declared = {
        found[1]: found[2] for line in lines if (found := re.fullmatch(r"(components\.\S+) (trainyard:\S+)", line))
    }
    assert len(declared) == 12
    assert {f"components.{path}" for path in re.findall(r"`components\.(\w+\.\w+)`", section)} == declared.keys()
    for path, token in declared.items():
        _, module, name = path.split(".")
        assert token in (f"trainyard:{module}:{name}", f"trainyard:index:{name}"), path
