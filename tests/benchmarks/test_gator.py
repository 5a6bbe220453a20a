"""What the comparison of `trainyard check` with `gator test` reads and counts."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.gator import figures_of, findings, known_to_gator
from benchmarks.policy import STACK
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.stack_loader import load_stack


def of_gator(kind: str, name: str) -> dict[str, Any]:
    constraint = {"apiVersion": "constraints.gatekeeper.sh/v1beta1", "metadata": {"name": "que-001"}}
    return {
        "constraint": constraint,
        "violatingObject": {"kind": kind, "metadata": {"namespace": "vision", "name": name}},
    }


def test_findings_about_the_manifests_themselves_are_compared() -> None:
    gator = json.dumps([of_gator("TrainJob", "a"), of_gator("TenantPolicy", "tenant")])
    own = {"rule": "QUE-001", "object": "TrainJob vision/a"}
    made = {"rule": "IMG-001", "object": "JobSet vision/a (from TrainJob vision/a)"}
    schema = {"rule": None, "object": "TrainJob vision/b"}
    assert findings("gator", gator) == findings("trainyard", json.dumps({"results": [own, made, schema]}))
    assert findings("gator", "null") == set()


def test_rates_leave_out_what_one_manifest_takes() -> None:
    figures = figures_of({"seconds": 1, "processor_seconds": 2}, {"seconds": 6, "processor_seconds": 12}, 1000)
    assert figures == {
        "start_up_seconds": 1,
        "start_up_processor_seconds": 2,
        "manifests_per_processor_second": 100,
        "manifests_per_second": 200,
    }


def test_gator_knows_every_rule_and_what_it_reads() -> None:
    known = known_to_gator(load_stack(STACK))
    kinds = [body["kind"] for body in known]
    reviewed = [rule for rule in load_rules() if rule.gate is not EnforcementPoint.CRD]
    assert kinds.count("ConstraintTemplate") == sum(kind.startswith("Trainyard") for kind in kinds) == len(reviewed)
    assert {"Platform", "TenantPolicy", "Namespace"} < set(kinds)
