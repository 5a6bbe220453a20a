"""Texts without which a rule has no violation: no violating request lacks them."""

from __future__ import annotations

import asyncio
import copy
import os
import random
from typing import Any, Final

import pytest

from tests.policy.equivalence.anatomy import places
from tests.policy.rego.documents import case_documents, generated_documents
from tests.policy.shipped import RULES
from tests.policy.test_rego_shapes import distorted
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.prefilter import Prefilter, searched
from trainyard.policy.review import DecisionUnavailableError
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.testing.cases import CaseDecision

SEED: Final = 3
DISTORTED: Final = int(os.environ.get("TRAINYARD_SHAPES", "400")) // 2
GENERATED: Final = 150
WITH_TEXTS: Final = [rule.id for rule in RULES if rule.texts is not None]


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
    assert min(found.get(rule, 0) for rule in WITH_TEXTS) >= 3


def thinned(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a request without several of its fields: the texts that a violation needs are often the last to go."""
    document = {**document, "request": copy.deepcopy(document["request"])}
    for _ in range(chance.choice((1, 2, 4, 8))):
        part = document["request"][chance.choice(("object", "object", "oldObject", "runtime"))]
        if found := [(node, key) for node, key in places(part) if node is not part]:
            node, key = chance.choice(found)
            del node[key]
    return document


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
    required = rule_of(rule).texts
    assert required is not None
    found = set(searched(required, parameters, platform))
    assert texts <= found
    assert (b"" in found) is (b"" in texts)
