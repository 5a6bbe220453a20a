"""Components are independent of each other: also those that no contract of imports lists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import components
from components.registry import declarations

FOLDER = Path(components.__file__).parent
SHARED = ("components.common", "components.hooks")


def imported(path: Path) -> set[str]:
    """Return the modules of this package that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module == "components"
            found |= {f"components.{alias.name}" for alias in node.names} if whole else {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "components"}


@pytest.mark.parametrize("name", declarations())
def test_a_component_imports_no_other(name: str) -> None:
    assert [each for each in imported(FOLDER / f"{name}.py") if not each.startswith(SHARED)] == []
