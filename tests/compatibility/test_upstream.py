"""The upstream controller and Trainyard make the same of the same input, except for the list of differences.

Upstream's controller runs with its webhooks on an API server of its own. Every case of the corpus is submitted to it;
its verdicts are compared with ours, and the objects it makes with the ones we render, both as the API server stores
them. A difference on the list changes upstream's objects into ours or explains a verdict; nothing else may remain.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.compatibility import servers
from tests.compatibility.comparison import Comparison
from tests.compatibility.corpus import corpus
from tests.compatibility.differences import DIFFERENCES
from tests.compatibility.run import compared, prepare

pytestmark = pytest.mark.cluster

GROUPS = sorted({case.name.partition("-")[0] if "-" in case.name else "generated" for case in corpus()})


@dataclass
class Proof:
    """The comparison of every case."""

    comparisons: dict[str, Comparison]

    def findings(self, group: str) -> list[str]:
        """Return what nothing explains in a group of cases."""
        return [
            f"{name}: {finding}"
            for name, comparison in self.comparisons.items()
            if (name.partition("-")[0] if "-" in name else "generated") == group
            for finding in comparison.findings
        ]


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    with servers.api_server(tmp_path_factory.mktemp("upstream")) as server:
        asyncio.run(prepare(server))
        with servers.trainer(server):
            return Proof(asyncio.run(compared(server, corpus())))


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_differs_but_what_is_on_the_list(proof: Proof, group: str) -> None:
    findings = proof.findings(group)
    assert not findings, f"{len(findings)} differences, the first: " + "\n".join(findings[:10])


def test_every_difference_on_the_list_is_there(proof: Proof) -> None:
    used = Counter(name for comparison in proof.comparisons.values() for name in set(comparison.used))
    assert not {entry.identifier for entry in DIFFERENCES} - used.keys()


def test_a_rendering_without_any_difference_is_there(proof: Proof) -> None:
    """The list must not explain everything: some cases are equal but for the snapshot's metadata."""
    plain = [name for name, found in proof.comparisons.items() if set(found.used) <= {"snapshot-metadata"}]
    assert len(plain) >= 100
