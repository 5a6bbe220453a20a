"""Mutation of the Rego: whatever is changed in a rule, a case must notice, or the list says why nothing can.

A sample runs with the other tests, everything with ``make mutation``.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import yaml

from tests.policy.rego.documents import POLICIES, rego_files
from tests.policy.rego.mutant_runner import MutantRunner, Outcome
from tests.policy.rego.mutants import Mutant, mutants_of

EQUIVALENT = Path(__file__).parent / "rego" / "equivalent.yaml"
EVERYTHING = os.environ.get("TRAINYARD_MUTANTS") == "all"
PARTS = os.cpu_count() or 1 if EVERYTHING else 1
"""Parts of the mutants that run side by side."""
SAMPLE = 2
"""Mutants of a file in the sample."""
SEED = 20

EXAMPLE = """package example

import data.trainyard.lib.request
import rego.v1

# A comment is not changed: x == y.
violation contains {"path": "spec.a", "message": message} if {
	some item in request.list(input.object, "items")
	not item.size <= 3
	every name in ["a", ""] {
		startswith(item.name, name)
	}
	message := sprintf("\\"%v\\" is wrong", [item.name])
}

known(name) := true if regex.match(`^[a-c]+$`, name)
"""


def mutants() -> list[Mutant]:
    """Return the mutants of files; generated Rego has none."""
    files = {file: text for file, text in rego_files().items() if (POLICIES / file).is_file()}
    return [mutant for file, text in files.items() for mutant in mutants_of(file, text)]


def equivalent() -> dict[tuple[str, str, str], str]:
    entries = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []
    return {
        (group["file"], entry["line"], change): group.get("reason") or entry["reason"]
        for group in entries
        for entry in group["mutants"]
        for change in entry["changes"]
    }


def sample(found: list[Mutant]) -> list[Mutant]:
    """Return a few mutants of each file; a change elsewhere in the file leaves them the same."""
    by_file: dict[str, list[Mutant]] = {}
    for mutant in sorted(found, key=lambda each: hashlib.sha256(f"{SEED} {each.key}".encode()).digest()):
        by_file.setdefault(mutant.file, []).append(mutant)
    return [each for of_file in by_file.values() for each in of_file[:SAMPLE]]


def test_a_rule_is_changed_in_one_place_at_a_time() -> None:
    assert {mutant.change for mutant in mutants_of("x.rego", EXAMPLE)} >= {
        'some becomes every: some item in request.list(input.object, "items")',
        "not item.size <= 3 no longer negated",
        "without not item.size <= 3",
        "<= becomes <",
        "<= becomes >",
        "3 becomes 4",
        "3 becomes 2",
        ".size becomes another field",
        'every becomes some: every name in ["a", ""] { startswith(item.name, name) }',
        "not startswith(item.name, name)",
        "startswith becomes endswith",
        '"a" becomes another text',
        "true becomes false",
        "the pattern without ^",
        "the pattern without $",
        "+ at 7 of the pattern becomes *",
        "a-c at 3 of the pattern becomes a",
        "without this definition",
    }


def test_texts_for_people_comments_and_imports_stay_as_they_are() -> None:
    for mutant in mutants_of("x.rego", EXAMPLE):
        assert "# A comment is not changed: x == y.\n" in mutant.text
        assert "import data.trainyard.lib.request\n" in mutant.text
        assert 'is wrong~"' not in mutant.text


def test_every_mutant_has_a_name_of_its_own() -> None:
    found = mutants()
    assert len({mutant.key for mutant in found}) == len(found)
    assert len({(mutant.file, mutant.text) for mutant in found}) == len(found)


def test_equivalent_mutants_exist_and_have_a_reason() -> None:
    known = equivalent()
    assert all(known.values())
    gone = set(known) - {mutant.key for mutant in mutants()}
    assert gone == set(), f"{EQUIVALENT.name} lists what is no mutant any more"


@pytest.mark.cluster
@pytest.mark.parametrize("part", range(PARTS))
def test_a_case_notices_every_mutant(part: int, tmp_path: Path) -> None:
    from trainyard.local.cluster.toolchain import program_path

    chosen = mutants()[part::PARTS]
    keys = {mutant.key for mutant in chosen}
    known = {key: reason for key, reason in equivalent().items() if key in keys}
    if not EVERYTHING:
        chosen = sample([mutant for mutant in chosen if mutant.key not in known])
    with MutantRunner(program_path("opa"), tmp_path) as runner:
        outcome = runner.run(chosen)
    report(outcome)
    alive = [mutant for mutant in outcome.alive if mutant.key not in known]
    assert alive == [], f"no case notices {len(alive)} changes:\n" + "\n".join(map(str, alive))
    if EVERYTHING:
        noticed = set(known) - {mutant.key for mutant in outcome.alive}
        assert noticed == set(), f"{EQUIVALENT.name} lists what a case does notice"


def report(outcome: Outcome) -> None:
    total = outcome.noticed + len(outcome.generated) + outcome.invalid + len(outcome.alive)
    print(
        f"{total} mutants: {outcome.noticed} noticed by cases, {len(outcome.generated)} by objects of the "
        f"equivalence proof, {outcome.invalid} no Rego, {len(outcome.alive)} alive"
    )
