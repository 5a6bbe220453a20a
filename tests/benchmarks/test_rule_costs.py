"""How the costs of rules are shown, and of which requests they are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.rule_costs import MANIFESTS, questions, table
from trainyard.policy.engines.opa.bundle import build_bundle


def test_the_dearest_rule_comes_first() -> None:
    cheap = {"concerned": 10, "concerned_expressions": 50, "asked": 0, "asked_expressions": 0}
    dear = {"concerned": 10, "concerned_expressions": 4000, "asked": 5, "asked_expressions": 2000}
    results = {
        "requests": 20,
        "without_rules": 900,
        "concerned_expressions": 4900,
        "asked_expressions": 2900,
        "each": {"AAA-001": cheap, "BBB-001": dear},
    }
    assert table(results).splitlines()[2:] == [
        "| BBB-001 | 10 | 4,000 | 5 | 2,000 |",
        "| AAA-001 | 10 | 50 | 0 | 0 |",
        "| all rules | 20 | 4,900 | 20 | 2,900 |",
        "| no rules | 20 | 900 | | |",
    ]


@pytest.mark.slow
def test_every_request_concerns_rules_and_some_of_them_are_left_out(tmp_path: Path) -> None:
    shared, requests = questions(build_bundle(), tmp_path)
    assert shared["states"] == {}
    assert len(requests) > MANIFESTS
    assert all(request.concerns for request in requests)
    assert {"IMG-001", "TEN-001"} <= requests[0].concerns - requests[0].mute
    assert all(request.mute & request.concerns for request in requests if len(request.concerns) > 10)
