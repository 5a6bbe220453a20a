"""Style of module docstrings: the first line names a concept in the project's vocabulary (see CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re

from tests.support import ROOT

RIDDLES = re.compile(r"(What|How|Where|Who|Whom|Whose|Whether|Which|In which|From|With|Whatever)\b")
"""First words of a question instead of a name."""
RETIRED = re.compile(
    r"\b(anew|for ?ever|nobody|somebody|everybody|whoever|told|hears?|speaks?|wishes|judged|proved|catalogues?)\b"
)
"""Words that CONTRIBUTING.md replaces."""


def test_the_first_line_of_each_module_names_its_concept() -> None:
    faults = {}
    for folder in ("trainyard", "components"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            title = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
            if not title or RIDDLES.match(title) or RETIRED.search(title.lower()):
                faults[str(path.relative_to(ROOT))] = title
    assert faults == {}
