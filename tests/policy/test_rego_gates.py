"""The Rego as a program: formatted, accepted by the strict compiler, every line reached, its messages reviewed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden import assert_golden
from tests.policy.rego.documents import ENTRY_POINT, case_documents, entry_documents, rego_files, rule_data
from tests.policy.rego.engine import HARNESS, run
from trainyard.policy.engines.opa.bundle import package_name

MESSAGES = Path(__file__).parent / "golden" / "messages.yaml"
FORBIDDEN = ("http.send", "opa.runtime", "net.lookup", "rego.metadata", "time.now_ns", "rand.", "import future", "%q")


@pytest.fixture(scope="module")
def opa() -> Path:
    from trainyard.local.cluster.toolchain import program_path

    return program_path("opa")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every Rego file, what the rule files say, and all requests of the tests."""
    folder = tmp_path_factory.mktemp("rego")
    for name, text in {**rego_files(), "harness.rego": HARNESS}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    documents = {rule: [document for _, document in found] for rule, found in case_documents().items()}
    documents["entry"] = [document for _, document, _ in entry_documents()]
    (folder / "data.json").write_text(json.dumps({**rule_data(), "documents": documents}))
    return folder


@pytest.fixture(scope="module")
def evaluated(opa: Path, written: Path) -> dict[str, Any]:
    """The answers to every request by suite, and which lines were reached, of one evaluation."""
    asked = 'data.harness.decisions with input as {"suite": suite}'
    query = f"{{suite: answers | some suite; data.documents[suite]; answers := {asked}}}"
    printed = run(opa, written, "eval", "--coverage", "--format=json", "--strict-builtin-errors", "--data=data.json",
                  "--data=harness.rego", *(f"--data={name}" for name in rego_files()), query)  # fmt: skip
    answer: dict[str, Any] = json.loads(printed)
    return answer


def test_rules_use_no_more_than_their_input() -> None:
    found = [(name, word) for name, text in rego_files().items() for word in FORBIDDEN if word in text]
    assert found == []


def test_no_order_is_negated() -> None:
    """OPA evaluates the operands outside the negation: the rule is undefined, not violated, where one has no value."""
    lines = [(name, line) for name, text in rego_files().items() for line in text.splitlines()]
    assert [each for each in lines if re.search(r"\bnot [^;]* (<|>|<=|>=) ", each[1])] == []


def test_every_rule_has_the_package_of_its_id() -> None:
    for name, text in rego_files().items():
        if not name.startswith("lib/"):
            rule = name.split("/")[1][:7]
            assert text.startswith(f"package trainyard.rules.{package_name(rule)}\n"), name


@pytest.mark.cluster
def test_the_rego_is_formatted(opa: Path, written: Path) -> None:
    assert run(opa, written, "fmt", "--list", files=rego_files()).split() == []


@pytest.mark.cluster
def test_the_strict_compiler_accepts_the_rego(opa: Path, written: Path) -> None:
    run(opa, written, "check", "--strict", files=rego_files())


@pytest.mark.cluster
def test_the_cases_reach_every_line(evaluated: dict[str, Any]) -> None:
    missed = []
    for name, text in rego_files().items():
        lines = text.splitlines()
        reached = evaluated["coverage"]["files"].get(name, {"not_covered": [{"start": {"row": 1}, "end": {"row": 1}}]})
        for part in reached.get("not_covered", ()):
            rows = range(part["start"]["row"], part["end"]["row"] + 1)
            missed += [f"policies/{name}:{row}: {lines[row - 1].strip()}" for row in rows]
    assert missed == [], "no case reaches:\n" + "\n".join(missed)


@pytest.mark.cluster
def test_the_entry_point_decides_as_its_table_says(evaluated: dict[str, Any]) -> None:
    documents = entry_documents()
    answers = evaluated["result"][0]["expressions"][0]["value"]["entry"]
    assert len(answers) == len(documents)
    wrong = []
    for (about, _, expected), answer in zip(documents, answers, strict=True):
        short = [_short(each) for each in answer] if isinstance(answer, list) else _short(answer)
        if short != expected:
            wrong.append(f"{about} Expected {expected}, got {short}")
    assert wrong == [], f"{ENTRY_POINT.name}:\n" + "\n".join(wrong)


def _short(decision: dict[str, Any] | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    lists = {
        name: sorted(f"{found['rule'] or 'null'} {found['path']}" for found in decision[name])
        for name in ("violations", "warnings", "audits", "undecided", "exempted")
    }
    return {"allowed": decision["allowed"], **{name: found for name, found in lists.items() if found}}


@pytest.mark.cluster
def test_the_messages_are_the_reviewed_ones(evaluated: dict[str, Any]) -> None:
    """A finding's place is in the case; its words are here."""
    answers = evaluated["result"][0]["expressions"][0]["value"]
    said: dict[str, dict[str, list[str]]] = {}
    for rule, found in case_documents().items():
        for (case, _), answer in zip(found, answers[rule], strict=True):
            texts = sorted(
                f"{each['path']}: {each['message']}"
                for kind in ("violations", "warnings", "audits")
                for each in answer[kind]
            )
            if texts:
                said.setdefault(rule, {})[case.name] = texts
    assert_golden(MESSAGES, yaml.safe_dump(said, width=1000, allow_unicode=True))
