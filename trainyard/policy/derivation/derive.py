"""Required texts of every rule: a small set of texts of which each violating request contains one.

A rule's Rego is interpreted for requests without certain texts. If the rule then has no violation, each violating
request contains one of the texts. Texts that typical objects contain are dropped as long as this holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from trainyard.errors import TrainyardError
from trainyard.policy.derivation.assumptions import Absence, Assumption
from trainyard.policy.derivation.interpreter import Program
from trainyard.policy.engines.opa.bundle import Bundle, build_bundle, package_name
from trainyard.policy.engines.opa.capabilities import capabilities_file, environment
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.required_texts import RequiredTexts, rego_digest
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases, shared_bases
from trainyard.policy.testing.cases import CaseDecision

_ALWAYS: Final = frozenset(
    (
        *("administrator", "groups", "name", "namespace", "namespaceLabels", "object", "oldObject", "operation"),
        *("request", "runtime", "subResource", "options", "user", "apiVersion", "kind", "metadata"),
    )
)
"""Keys that every request has."""


def compiled(program: Path, bundle: Bundle, rules: Iterable[str]) -> Program:
    """Compile rules.

    Parameters
    ----------
    program
        The ``opa`` program.
    bundle
        Their Rego.
    rules
        Paths of their violations below ``data``, with slashes.

    Raises
    ------
    TrainyardError
        The Rego cannot be compiled.
    """
    with tempfile.TemporaryDirectory() as name:
        source, result = Path(name) / "bundle.tar.gz", Path(name) / "plan.tar.gz"
        bundle.write(source)
        entries = [f"--entrypoint={rule}" for rule in rules]
        variables = environment(os.environ)
        limits = f"--capabilities={capabilities_file(program, Path(name), variables)}"
        command = [str(program), "build", "--target=plan", limits, "--bundle", str(source), "--output", str(result)]
        done = subprocess.run(  # noqa: S603
            [*command, *entries], capture_output=True, text=True, env=variables, check=False
        )
        if done.returncode:
            raise TrainyardError(
                f"The Rego of the rules cannot be compiled: {done.stderr.strip() or done.stdout.strip()}",
                fix="check it with trainyard policy test",
            )
        with tarfile.open(result) as archive:
            (plan,) = (entry for entry in archive if entry.name.endswith("plan.json"))
            content = archive.extractfile(plan)
            return Program(orjson.loads(content.read() if content else b"{}"))


def required_texts(program: Path, folder: Path) -> dict[str, RequiredTexts]:
    """Return the required texts of each rule that has any, by id.

    Parameters
    ----------
    program
        The ``opa`` program.
    folder
        The shipped rules.

    Raises
    ------
    TrainyardError
        The Rego cannot be compiled.
    """
    rules = load_rules(folder)
    plan = compiled(program, build_bundle(), (f"trainyard/rules/{package_name(rule.id)}/violation" for rule in rules))
    cases = [case for case in load_cases(folder, rules) if case.verdict is CaseDecision.ALLOW]
    bodies = [case.content.object or case.content.old_object or {} for case in cases]
    found = {}
    for rule in rules:
        bases, samples = (_documents(rule, each) for each in (shared_bases().values(), bodies))
        if chosen := _chosen(plan, rule, bases, samples):
            found[rule.id] = _record(rule, folder, chosen)
    return found


def written(found: Mapping[str, RequiredTexts]) -> str:
    """Return the content of the file of required texts."""
    content = {rule: texts.model_dump(exclude_defaults=True) for rule, texts in sorted(found.items())}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _documents(rule: AdmissionRule, bodies: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Return the objects that a rule evaluates, as parts of requests in a tenant's namespace."""
    kinds = {(match.api_version, match.kind) for match in rule.matches}
    matching = (body for body in bodies if (body.get("apiVersion"), body.get("kind")) in kinds)
    return [orjson.dumps({"object": body, "namespaceLabels": {TENANT_LABEL: "tenant"}}) for body in matching]


def _chosen(plan: Program, rule: AdmissionRule, bases: Sequence[bytes], samples: Sequence[bytes]) -> set[Assumption]:
    """Return assumptions without which the rule may have a violation; empty if there are none."""
    path = f"trainyard.rules.{package_name(rule.id)}.violation"
    without = Absence(frozenset())
    plan.has_value(path, without)

    def frequency(assumption: Assumption) -> tuple[float, bool, float]:
        texts = list(_searched(rule, assumption))
        return _share(texts, bases), assumption.kind == "string", _share(texts, samples)

    possible = [each for each in without.asked if _usable(each, rule) and frequency(each)[-1] < 1]
    if plan.has_value(path, Absence(frozenset(possible))):
        return set()
    # The most frequent first, and fields before values; of the others, outer fields, which are asked about first.
    possible.sort(key=frequency, reverse=True)
    chosen = set(possible)
    for each in possible:
        if not plan.has_value(path, Absence(frozenset(chosen - {each}))):
            chosen.remove(each)
    texts = [text for each in chosen for text in _searched(rule, each)]
    return chosen if _share(texts, samples) < 1 else set()


def _usable(assumption: Assumption, rule: AdmissionRule) -> bool:
    """Return whether a search can verify an assumption."""
    if assumption.kind in ("string", "part"):
        return assumption.text not in _ALWAYS
    return RequiredTexts.readable(assumption.text, rule.id)


def _searched(rule: AdmissionRule, assumption: Assumption) -> list[bytes]:
    """Return the texts of an assumption for the default parameters; those of a Platform are rare."""
    texts = _record(rule, Path(), [assumption])
    return list(texts.searched(rule.parameter_values({}), {}))


def _share(texts: Sequence[bytes], documents: Sequence[bytes]) -> float:
    return sum(any(text in document for text in texts) for document in documents) / max(len(documents), 1)


def _record(rule: AdmissionRule, folder: Path, chosen: Iterable[Assumption]) -> RequiredTexts:
    by_kind: dict[str, list[str]] = {}
    for each in sorted(chosen):
        by_kind.setdefault(each.kind, []).append(each.text)
    return RequiredTexts(
        rego=rego_digest(rule, folder),
        strings=by_kind.get("string", []),
        parts=by_kind.get("part", []),
        items=by_kind.get("items", []),
        flags=by_kind.get("flag", []),
    )
