"""Whatever stands in place of a field, the rules decide: an object of any shape is no error of theirs.

``TRAINYARD_SHAPES=NUMBER`` asks about so many objects.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
from typing import Any, Final

import pytest

from tests.policy.equivalence.anatomy import places
from tests.policy.listed_cases import listed_rules
from tests.policy.rego.documents import case_documents
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.review import DecisionUnavailableError

pytestmark = pytest.mark.cluster

REQUESTS: Final = int(os.environ.get("TRAINYARD_SHAPES", "1500"))
SEED: Final = 1
PARTS: Final = ("object", "object", "object", "oldObject", "runtime")
INSTEAD: Final[tuple[Any, ...]] = (
    "", "x", 5, 1.0, True, None, [], {}, [None], [""], [[]], [5], {"a": None}, {"limits": 5},
)  # fmt: skip


def distorted(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a question about all rules in which something else stands in one or two places."""
    document = {**document, "only": None, "request": copy.deepcopy(document["request"])}
    for _ in range(chance.choice((1, 1, 2))):
        part = document["request"][chance.choice(PARTS)]
        found = [(node, key) for node, key in places(part) if node is not part or key not in ("apiVersion", "kind")]
        if found:
            node, key = chance.choice(found)
            node[key] = copy.deepcopy(chance.choice(INSTEAD))
    return document


def unreviewed(asked: list[dict[str, Any]]) -> list[str]:
    """Return the questions that the policy server does not answer."""

    async def run() -> list[str]:
        failed = []
        async with OpaClient(address, timeout=60) as client:
            for document in asked:
                try:
                    await client.decide(document)
                except DecisionUnavailableError as error:
                    failed.append(f"{error}: {json.dumps(document['request'])}")
        return failed

    with OpaServer(lambda: program_path("opa"), build_bundle(rules=listed_rules())) as address:
        return asyncio.run(run())


def test_objects_of_any_shape_are_reviewed() -> None:
    chance = random.Random(SEED)
    known = [document for documents in case_documents().values() for _, document in documents]
    assert unreviewed([distorted(chance.choice(known), chance) for _ in range(REQUESTS)]) == []


def test_amounts_of_any_shape_are_reviewed() -> None:
    """A message shows the beginning of an amount, which need not be text."""
    asked = []
    for _, known in case_documents()["GNG-006"]:
        if "minResources" in (known["request"]["object"] or {}).get("spec", {}):
            for value in INSTEAD:
                document = {**known, "only": None, "request": copy.deepcopy(known["request"])}
                document["request"]["object"]["spec"]["minResources"] = {"cpu": value}
                asked.append(document)
    assert asked
    assert unreviewed(asked) == []
