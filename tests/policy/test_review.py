"""What the policy server is asked about several requests."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from trainyard.policy.prefilter import Prefilter
from trainyard.policy.review import AdmissionContext, Review, documents_of
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.platform import PolicySettings

RULES = load_rules()
VALID = {rule.id: rule.texts for rule in RULES if rule.texts is not None}
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
JOB: dict[str, Any] = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "j"}}
DEPRECATED = {"metadata": {"labels": {"trainer.kubeflow.org/support": "deprecated"}}}


def test_parameters_that_several_requests_share_are_said_once() -> None:
    platform, vision, language = {"leafQueues": ["a"]}, {"queues": ["a"]}, {"queues": ["b"]}
    reviews = [
        Review("CREATE", JOB, platform=platform, tenant_policy=policy) for policy in (vision, language, vision, None)
    ]
    document = documents_of(reviews, AdmissionContext(PolicySettings(), (), NOW))
    assert document["params"] == [
        {"platform": platform, "tenantPolicy": vision},
        {"platform": platform, "tenantPolicy": language},
        {"platform": platform, "tenantPolicy": None},
    ]
    assert [request["params"] for request in document["requests"]] == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("prefilter", "runtime", "sent"),
    [
        (Prefilter(RULES, {}), DEPRECATED, DEPRECATED),
        (Prefilter(RULES, {}), {"metadata": {}}, None),
        (Prefilter([rule for rule in RULES if rule.id != "ENV-002"], {}), {"metadata": {}}, None),
        (Prefilter([rule for rule in RULES if rule.id not in VALID], {}), {"metadata": {}}, None),
        (None, {"metadata": {}}, {"metadata": {}}),
    ],
    ids=["a rule may find something", "no rule does", "fewer rules", "no rule sees it", "every rule is asked"],
)
def test_the_runtime_is_sent_to_rules_that_may_find_something_in_it(
    prefilter: Prefilter | None, runtime: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    context = AdmissionContext(PolicySettings(), (), NOW, prefilter=prefilter)
    (request,) = documents_of([Review("CREATE", JOB, runtime=runtime)], context)["requests"]
    assert request["request"]["runtime"] == sent
