"""Every row of docs/compatibility.md outside the generated tables is shown by tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.compatibility.claims import CLAIMS, UNCHANGED
from tests.compatibility.difference_table import BEGIN, END, PAGE
from tests.support import ROOT


def rows() -> dict[str, list[str]]:
    """Return the first columns of the hand-written tables, by heading of their section, and the unchanged parts."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    before_and_after = f"{before}{rest.partition(END)[2]}"
    found: dict[str, list[str]] = {}
    heading, in_table = "", False
    for line in before_and_after.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            in_table = False
        elif line.startswith("|--"):
            in_table = True
        elif in_table:
            found.setdefault(heading, []).append(line.split("|")[1].strip())
    entries = re.split(r"^- ", before_and_after.partition(f"\n{UNCHANGED}:\n\n")[2].partition("\n#")[0], flags=re.M)
    found[UNCHANGED] = [" ".join(re.split(r"[;.](?:\s|$)", entry)[0].split()) for entry in entries[1:]]
    return found


@cache
def functions(file: str) -> frozenset[str]:
    """Return the test functions of a file."""
    path = ROOT / "tests" / file
    nodes = ast.parse(path.read_text()).body if path.is_file() else []
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_row_has_its_tests() -> None:
    for heading, subjects in rows().items():
        assert sorted(CLAIMS.get(heading, ())) == sorted(subjects), heading
        assert all(CLAIMS[heading].values()), heading
    assert CLAIMS.keys() == rows().keys()


def test_the_tests_of_every_row_exist() -> None:
    named = {test for claims in CLAIMS.values() for tests in claims.values() for test in tests}
    missing = {test for test in named if not _exists(*test.split("::"))}
    assert missing == set()


def _exists(file: str, function: str) -> bool:
    return function.startswith("test_") and function in functions(file)
