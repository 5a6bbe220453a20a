"""Style of module docstrings: the first line names a concept in the project's vocabulary (see CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

RIDDLES = re.compile(r"(What|How|Where|Who|Whom|Whose|Whether|Which|In which|From|With|Whatever)\b")
"""First words of a question instead of a name."""
RETIRED = re.compile(
    r"\b(anew|for ?ever|(no|some|any|every)body|whoever|told|hears?|speaks?|wish(es)?|(un)?judged?"
    r"|judg(es|ing|e?ments?)|proved|catalogues?|rulebooks?|surroundings|rulings?|occupancy|problems?)\b"
)
"""Words that CONTRIBUTING.md replaces."""
RETIRED_CLASSES = {"Answer", "Judgement", "Note", "Outcome", "Problem", "Ruling", "Verdict"}
"""Names of classes that CONTRIBUTING.md replaces."""
STEMS = (
    *("anew", "forever", "for ever", "nobody", "somebody", "anybody", "everybody", "whoever", "told", "hear", "speak"),
    *("wish", "judg", "proved", "catalogue", "rulebook", "surroundings", "ruling", "occupancy", "problem"),
)
"""Parts of these words, as they occur in names; a file without any is not parsed."""
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a name."""

REGISTRIES = (
    "components",
    "components/hooks",
    "trainyard/cli",
    "trainyard/local/cluster/providers",
    "trainyard/local/cluster/supervisor/host_programs",
    "trainyard/controller/keys",
    "trainyard/jobs/convert/kinds",
    "trainyard/insight/explain/causes",
    "trainyard/cluster_state",
    "tools/reference",
    "trainyard/jobs/render/frameworks",
    "trainyard/jobs/render/gangs",
    "trainyard/settings",
    "trainyard/settings/sections",
    "trainyard/scheduling/topology/sources",
    "tests/compatibility/differences",
    "tests/components/extension",
    "tests/policy/extension",
    "tests/render/extension",
)
"""Folders whose members are named after what they are about: a component, a command, a section of the settings."""
RULE_SETS = ("trainyard/scheduling/queues/rules.py", "trainyard/scheduling/topology/rules.py")
"""The rule sets of two checks."""
KEPT = {"trainyard/controller/configuration.py": {"told"}}
"""Keys of the controller's configuration, which other versions read."""
KEPT_TEXTS = {
    "trainyard/manifests/nodes.py": {"problem"},
    "components/tenants.py": {"trainyard-catalogue"},
}
"""An attribute of PyYAML, and the name of a ClusterRole."""
GENERATED = ("rules.md",)
"""Pages with the texts of rules."""
CODE = re.compile(r"`[^`]*`")
"""Code in a text, which may have former names."""
MIRRORED = re.compile(r"__\w+__|conftest|test_\w+")
"""Files of tests that mirror the source tree: their folders tell them apart."""


def test_a_basename_stands_for_one_thing() -> None:
    named: dict[str, list[str]] = {}
    for folder in ("trainyard", "components", "stacks"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if path.parent.relative_to(ROOT).as_posix() not in REGISTRIES and not path.stem.startswith("__"):
                named.setdefault(path.name, []).append(name)
    named["rules.py"] = [name for name in named["rules.py"] if name not in RULE_SETS]
    assert {name: sorted(paths) for name, paths in named.items() if len(paths) > 1} == {}


def test_a_basename_of_the_helpers_of_tests_stands_for_one_thing() -> None:
    named: dict[str, list[str]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        if path.parent.relative_to(ROOT).as_posix() not in REGISTRIES and not MIRRORED.fullmatch(path.stem):
            named.setdefault(path.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: sorted(paths) for name, paths in named.items() if len(paths) > 1} == {}


def test_the_first_line_of_each_module_names_its_concept() -> None:
    faults = {}
    for folder in ("trainyard", "components", "stacks", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            title = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
            if not title or RIDDLES.match(title) or RETIRED.search(title.lower()):
                faults[str(path.relative_to(ROOT))] = title
    assert faults == {}


def test_names_and_docstrings_have_no_retired_word() -> None:
    faults = {}
    for folder in ("trainyard", "components", "stacks", "benchmarks", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            everything = f"{path.stem} {path.read_text()}".lower()
            texts = _names_and_docstrings(path) if any(stem in everything for stem in STEMS) else ()
            found = {text for text in texts if RETIRED.search(text.lower())}
            faults[path.relative_to(ROOT).as_posix()] = found
    assert {name: found for name, found in faults.items() if found != KEPT.get(name, set())} == {}


def test_texts_of_the_program_have_no_retired_word() -> None:
    faults = {}
    for folder in ("trainyard", "components", "stacks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            nodes = ast.walk(ast.parse(text)) if any(stem in text.lower() for stem in STEMS) else ()
            texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
            faults[path.relative_to(ROOT).as_posix()] = {each for each in texts if RETIRED.search(each.lower())}
    assert {name: found for name, found in faults.items() if found} == KEPT_TEXTS


def test_classes_have_no_retired_name() -> None:
    found = []
    for folder in ("trainyard", "components", "stacks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in re.findall(r"^ *class _*(\w+)", path.read_text(), re.MULTILINE):
                if name in RETIRED_CLASSES:
                    found.append(f"{path.relative_to(ROOT)}: {name}")
    assert found == []


def test_the_documentation_has_no_retired_word() -> None:
    faults = {}
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    others = (
        *(ROOT / "CHANGELOG.md", ROOT / "Makefile", ROOT / "Containerfile"),
        *(path for path in sorted((ROOT / "ci").rglob("*")) if path.is_file()),
        *sorted((ROOT / "tests" / "cluster" / "scenarios").glob("*.yaml")),
        *sorted((ROOT / "stacks").glob("*.yaml")),
    )
    for path in (*pages, *others):
        if path.name not in GENERATED:
            text = path.read_text() if path in pages else CODE.sub("", path.read_text())
            faults[path.relative_to(ROOT).as_posix()] = RETIRED.findall(text.lower())
    assert {name: found for name, found in faults.items() if found} == {}


def test_kinds_are_named_in_one_package() -> None:
    """A kind has one constant (`trainyard/kube/kinds.py`, `training_kinds.py`); others are made from data."""
    found = []
    for folder in ("trainyard", "components", "stacks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if "Resource(" not in text or path.is_relative_to(ROOT / "trainyard" / "kube"):
                continue
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="Resource"), args=[ast.Constant(), *_]):
                        found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def _names_and_docstrings(path: Path) -> Iterator[str]:
    """Yield the names that a module defines, as words, and its docstrings."""
    yield _words(path.stem)
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield ast.get_docstring(node) or ""
                yield _words(getattr(node, "name", ""))
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield _words(name)


def _words(name: str) -> str:
    return " ".join(PART.findall(name))


def test_the_code_stays_within_its_budget_of_lines() -> None:
    """A commit that raises the budget in pyproject.toml names what was cut and why the rest is worth it."""
    budget = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["trainyard"]["lines"]
    lines = {"library": _lines("trainyard", "components"), "tests": _lines("tests")}
    assert {part: count for part, count in lines.items() if count > budget[part]} == {}


def _lines(*folders: str) -> int:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sum(path.read_bytes().count(b"\n") for path in files)


def test_a_public_class_stands_for_one_thing() -> None:
    """A component and the model of its object may share a name."""
    named: dict[str, list[str]] = {}
    for folder in ("trainyard", "components", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    named.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name for name, paths in named.items() if len(paths) > 1} == {"Platform", "Trainer"}
