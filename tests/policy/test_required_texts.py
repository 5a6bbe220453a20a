"""Texts without which a rule has no violation: they are derived from the Rego, and no violating request lacks them."""

from __future__ import annotations

import asyncio
import copy
import os
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.policy.equivalence.anatomy import places
from tests.policy.rego.documents import case_documents, generated_documents
from tests.policy.shipped import POLICIES, RULES
from tests.policy.test_rego_shapes import distorted
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.derivation.assumptions import Absence, Assumption
from trainyard.policy.derivation.derive import compiled, required_texts, written
from trainyard.policy.derivation.interpreter import Program
from trainyard.policy.engines.opa.bundle import build_bundle, bundle_files
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.prefilter import Prefilter
from trainyard.policy.required_texts import REQUIRED_TEXTS, valid_texts
from trainyard.policy.review import DecisionUnavailableError
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.testing.cases import CaseDecision

COMMAND: Final = "run: trainyard policy texts --out policies/lib/required-texts.json"
SEED: Final = 3
DISTORTED: Final = int(os.environ.get("TRAINYARD_SHAPES", "400")) // 2
GENERATED: Final = 150
LIB: Final = "import data.trainyard.lib.request\nimport rego.v1\n\n"


def test_the_texts_are_those_of_the_present_rego() -> None:
    valid = valid_texts(RULES)
    assert {"ESC-001", "ACC-002", "ENV-002", "QUE-001"} <= set(valid), COMMAND
    stale = [rule.id for rule in RULES if f'"{rule.id}"' in (POLICIES / REQUIRED_TEXTS).read_text()]
    assert stale == list(valid), COMMAND


@pytest.mark.parametrize("changed", [None, "security/ESC-003-volumes/rule.rego", "lib/request.rego"])
def test_texts_of_changed_rego_do_not_count(
    changed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(POLICIES, folder)
    if changed:
        (folder / changed).write_text((folder / changed).read_text() + "\n# changed\n")
    monkeypatch.setattr("trainyard.policy.required_texts.data_folder", lambda _: folder)
    assert set(valid_texts([rule_of("ESC-003")])) == ({"ESC-003"} if changed is None else set())


@pytest.mark.cluster
def test_the_texts_are_those_that_the_derivation_finds() -> None:
    found = written(required_texts(program_path("opa"), POLICIES))
    assert (POLICIES / REQUIRED_TEXTS).read_text() == found, COMMAND


@pytest.mark.cluster
def test_no_violating_request_lacks_the_texts() -> None:
    """Every rule is evaluated for every request, also where the prefilter would exclude it."""
    chance = random.Random(SEED)
    cases = [
        document
        for documents in case_documents(listed=False).values()
        for case, document in documents
        if case.verdict is not CaseDecision.ALLOW
    ]
    asked = [
        *cases,
        *(distorted(chance.choice(cases), chance) for _ in range(DISTORTED)),
        *(thinned(chance.choice(cases), chance) for _ in range(DISTORTED)),
        *generated_documents(GENERATED),
    ]
    found: dict[str, int] = {}
    missed: list[tuple[str, Any]] = []

    async def run() -> None:
        async with OpaClient(address, timeout=60) as client:
            for document in asked:
                document = {**document, "only": None, "prefiltered": {}}
                try:
                    decision = await client.decide(document)
                except DecisionUnavailableError:
                    continue
                prefilter = Prefilter(RULES, document["parameters"])
                excluded = prefilter.excluded(document["request"], document["params"]["platform"])
                findings = [each for name in ("violations", "warnings", "audits") for each in decision[name]]
                for finding in findings:
                    if finding["path"] != "parameters" and finding["rule"]:
                        found[finding["rule"]] = found.get(finding["rule"], 0) + 1
                        if finding["rule"] in excluded:
                            missed.append((finding["rule"], document["request"]))

    with OpaServer(lambda: program_path("opa"), build_bundle()) as address:
        asyncio.run(run())
    assert missed == []
    assert min(found.get(rule, 0) for rule in valid_texts(RULES)) >= 3


def thinned(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a request without several of its fields: the texts that a violation needs are often the last to go."""
    document = {**document, "request": copy.deepcopy(document["request"])}
    for _ in range(chance.choice((1, 2, 4, 8))):
        part = document["request"][chance.choice(("object", "object", "oldObject", "runtime"))]
        if found := [(node, key) for node, key in places(part) if node is not part]:
            node, key = chance.choice(found)
            del node[key]
    return document


PROGRAMS: Final[tuple[tuple[str, str, set[str]], ...]] = (
    ("a field", 'violation contains 1 if request.spec.field == "value"', {"field", "value"}),
    ("a default", 'violation contains 1 if request.object_get(request.spec, "field", 0) != 0', {"field"}),
    (
        "an item of a list",
        'violation contains 1 if { some x in request.list(request.spec, "field"); x != 1 }',
        {"field"},
    ),
    ("one of several fields", 'violation contains 1 if { some f in ["one", "two"]; request.spec[f] }', {"one", "two"}),
    (
        "two violations",
        "violation contains 1 if request.spec.one\nviolation contains 2 if request.spec.two",
        {"one", "two"},
    ),
    ("a printed value", 'violation contains 1 if request.text(request.spec, "field") == "value"', {"field", "value"}),
    ("a part", 'violation contains 1 if contains(request.kind, "part")', {"part"}),
    ("the start of a piece", 'violation contains 1 if split(request.kind, "/")[0] == "piece"', {"piece"}),
    ("a pattern", "violation contains 1 if regex.match(`/(gpu|mig-.*)$`, request.kind)", {"/gpu", "/mig-"}),
    ("a set of keys", 'violation contains 1 if "key" in object.keys(request.spec)', {"key"}),
    (
        "a helper with two bodies",
        "a if request.spec.one\na if request.spec.two\nviolation contains 1 if a",
        {"one", "two"},
    ),
    ("an else", "a := 1 if request.spec.one else := 2\nviolation contains 1 if a == 1", {"one"}),
    ("a negated condition", 'violation contains 1 if not request.object_get(request.spec, "field", 0) == 0', {"field"}),
    (
        "every item",
        'a if every x in request.list(request.spec, "field") { x == 1 }\nviolation contains 1 if not a',
        {"field"},
    ),
    ("a count", 'violation contains 1 if count(request.list(request.spec, "field")) > 0', {"field"}),
    ("a sum", 'violation contains 1 if sum([1 | some x in request.list(request.spec, "field")]) > 0', {"field"}),
)
UNDERIVABLE: Final[tuple[tuple[str, str], ...]] = (
    ("a missing field", "violation contains 1 if not request.spec.field"),
    ("a missing item", 'violation contains 1 if not "item" in request.list(request.spec, "field")'),
    ("a default that violates", 'violation contains 1 if request.object_get(request.spec, "field", 0) == 0'),
    ("a number", "violation contains 1 if { some x in request.spec; x == 5 }"),
    ("a difference", 'violation contains 1 if { some x in request.spec; x != "value" }'),
    ("the value of a key", "violation contains 1 if { some key, _ in request.spec; key != 1 }"),
    ("an else that violates", "a := 1 if request.spec.one else := 2\nviolation contains 1 if a == 2"),
    ("no item", 'violation contains 1 if count(request.list(request.spec, "field")) == 0'),
    ("every item of none", 'violation contains 1 if every x in request.list(request.spec, "field") { x == 1 }'),
    ("a word of scalars", 'violation contains 1 if request.text(request.spec.f, "g") == "true"'),
    ("a text of several", 'violation contains 1 if sprintf("%v-%v", [request.kind, request.kind]) == "a-a"'),
    ("another function", 'violation contains 1 if lower(request.kind) == "pod"'),
)
BARE: Final = "violation contains 1 if { some f, g in request.spec; f == request.kind; g == request.object }"
"""Reads the parts of a request that the programs begin with, and nothing of them."""


def plan_of(program: str) -> tuple[Program, frozenset[Assumption]]:
    """Return the plan of a rule, and the texts that it reads."""
    shared = {f"lib/{path.name}": path.read_bytes() for path in (POLICIES / "lib").glob("request.rego")}
    files = {**shared, "rule.rego": f"package trainyard.rules.own\n\n{LIB}{program}\n".encode()}
    plan = compiled(program_path("opa"), bundle_files(files, ["trainyard"]), ["trainyard/rules/own/violation"])
    every = Absence(frozenset())
    plan.has_value("trainyard.rules.own.violation", every)
    return plan, frozenset(every.asked)


@cache
def texts_of_every_rule() -> frozenset[str]:
    return frozenset(each.text for each in plan_of(BARE)[1]) | {"f", "g"}


def assumed(program: str) -> tuple[bool, set[str]]:
    """Return whether a rule can be violated without the texts that it alone reads, and these texts."""
    plan, asked = plan_of(program)
    texts = frozenset(each for each in asked if each.text not in texts_of_every_rule())
    return plan.has_value("trainyard.rules.own.violation", Absence(texts)), {each.text for each in texts}


@pytest.mark.cluster
@pytest.mark.parametrize(("program", "texts"), [each[1:] for each in PROGRAMS], ids=[each[0] for each in PROGRAMS])
def test_a_rule_needs_its_texts(program: str, texts: set[str]) -> None:
    assert assumed(program) == (False, texts)


@pytest.mark.cluster
@pytest.mark.parametrize("program", [each[1] for each in UNDERIVABLE], ids=[each[0] for each in UNDERIVABLE])
def test_a_rule_may_be_violated_without_texts(program: str) -> None:
    assert assumed(program)[0] is True


@pytest.mark.parametrize(
    ("text", "part"), [("value", True), ("true", False), ("5", False), ("al", False), ("a b", False), ("[a]", False)]
)
def test_a_part_is_searchable_where_neither_numbers_nor_syntax_contain_it(text: str, part: bool) -> None:
    assert Absence(frozenset({Assumption("part", text)})).part(text) is part


def rule_of(rule_id: str) -> AdmissionRule:
    return next(rule for rule in RULES if rule.id == rule_id)


@pytest.mark.parametrize(
    ("rule", "parameters", "platform", "texts"),
    [
        ("ACC-001", {}, {"acceleratorResources": ['a"b']}, {b'a\\"b'}),
        ("ACC-001", {}, {"acceleratorResources": [5]}, {b""}),
        ("ACC-001", {}, {"acceleratorResources": "text"}, {b"text"}),
        ("ACC-001", {}, {}, set()),
        ("ENV-002", {"reserved": ["torch=PET_*", "mpi=HOSTS", "none"]}, {}, {b"PET_", b"HOSTS"}),
        ("RST-001", {"deadlineRequired": True}, {}, {b""}),
        ("RST-001", {"deadlineRequired": False}, {}, set()),
        ("OBJ-001", {}, {}, {b"-runtime-snapshot", b"-mpi-ssh-auth"}),
    ],
)
def test_settings_stand_for_their_texts(
    rule: str, parameters: dict[str, Any], platform: dict[str, Any], texts: set[bytes]
) -> None:
    required = valid_texts([rule_of(rule)])[rule]
    found = set(required.searched(parameters, platform))
    assert texts <= found
    assert (b"" in found) is (b"" in texts)
