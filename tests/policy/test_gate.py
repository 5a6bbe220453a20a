"""The decision about an object and what is made of it, by a real policy server with the shipped rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.gate import NO_DECISION, GateDecision, PolicyGate
from trainyard.policy.review import DecisionUnavailableError, Review
from trainyard.settings.platform import PolicySettings

TENANT = {"queues": ["vision"], "defaultQueue": "vision", "runtimes": ["*"]}
PLATFORM = {"leafQueues": ["vision", "language"], "acceleratorResources": ["nvidia.com/gpu"]}


def program() -> Path:
    from trainyard.local.cluster.toolchain import Toolchain, pinned

    (found,) = Toolchain().resolve([each for each in pinned() if each.name == "opa"])
    if found.path is None:
        pytest.skip("the policy server is not built")
    return found.path


@pytest.fixture(scope="module")
def address() -> Iterator[OpaAddress]:
    try:
        with OpaServer(program, build_bundle()) as server:
            yield server
    except TrainyardError as error:
        pytest.fail(str(error))


def job_set(queue: str) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "job",
            "namespace": "vision",
            "annotations": {"scheduling.volcano.sh/queue-name": queue},
            "ownerReferences": [{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "job"}],
        },
        "spec": {"replicatedJobs": []},
    }


TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "vision"},
    "spec": {"runtimeRef": {"name": "torch"}},
}


async def ruled(address: OpaAddress, *made: dict[str, Any], **changes: Any) -> GateDecision:
    facts: dict[str, Any] = {
        "namespace": "vision",
        "namespace_labels": {"trainyard.dev/tenant": "vision"},
        "user": "ann",
        "platform": PLATFORM,
        "tenant_policy": TENANT,
    }
    async with OpaClient(address, timeout=20) as client:
        gate = PolicyGate(client, PolicySettings(), ("kubeflow-system",), namespace="kubeflow-system")
        return await gate.review(Review("CREATE", TRAIN_JOB, **{**facts, **changes}), made)


def test_the_platform_may_make_what_a_tenant_may_not_write_itself(address: OpaAddress) -> None:
    assert asyncio.run(ruled(address, job_set("vision"))).denials == ()


def test_what_only_shows_in_the_made_object_is_denied_there(address: OpaAddress) -> None:
    denials = asyncio.run(ruled(address, job_set("language"))).denials
    assert "QUE-002" in {finding.rule for finding in denials}
    assert all(finding.path.startswith("JobSet job ") for finding in denials)


def test_without_the_tenant_policy_nothing_is_made(address: OpaAddress) -> None:
    denials = asyncio.run(ruled(address, job_set("vision"), tenant_policy=None)).denials
    assert ("QUE-002", "parameters") in {(finding.rule, finding.path) for finding in denials}


def test_a_request_that_cannot_be_reviewed_is_denied_under_its_own_id(address: OpaAddress) -> None:
    (finding,) = asyncio.run(ruled(address, platform="no object")).denials
    assert finding.rule == NO_DECISION


def test_too_few_answers_are_no_decision() -> None:
    class Short:
        async def decide_all(self, documents: Any) -> list[dict[str, Any]]:
            return []

    gate = PolicyGate(Short(), PolicySettings(), (), namespace="kubeflow-system")
    with pytest.raises(DecisionUnavailableError):
        asyncio.run(gate.review(Review("CREATE", TRAIN_JOB)))
