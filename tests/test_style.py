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


REGISTRIES = (
    "components",
    "components/hooks",
    "trainyard/cli",
    "trainyard/cluster/providers",
    "trainyard/cluster/supervisor/host_programs",
    "trainyard/controller/keys",
    "trainyard/convert/kinds",
    "trainyard/live",
    "trainyard/reference",
    "trainyard/render/frameworks",
    "trainyard/render/gangs",
    "trainyard/settings",
    "trainyard/settings/sections",
    "trainyard/topology/sources",
)
"""Folders whose members are named after what they are about: a component, a command, a section of the settings."""
RULE_SETS = ("trainyard/queues/rules.py", "trainyard/topology/rules.py")
"""The rule sets of two checks."""


def test_a_basename_stands_for_one_thing() -> None:
    named: dict[str, list[str]] = {}
    for folder in ("trainyard", "components", "stacks"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if path.parent.relative_to(ROOT).as_posix() not in REGISTRIES and not path.stem.startswith("__"):
                named.setdefault(path.name, []).append(name)
    named["rules.py"] = [name for name in named["rules.py"] if name not in RULE_SETS]
    assert {name: sorted(paths) for name, paths in named.items() if len(paths) > 1} == {}


def test_the_first_line_of_each_module_names_its_concept() -> None:
    faults = {}
    for folder in ("trainyard", "components"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            title = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
            if not title or RIDDLES.match(title) or RETIRED.search(title.lower()):
                faults[str(path.relative_to(ROOT))] = title
    assert faults == {}
