"""The CRDs on a real API server: each default, bound, rule and immutability holds, and files get the same verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.api.schema_cases import Case, Kind, bounds, tokens
from tests.api.schemas import definitions
from tests.support import LiveCluster, require
from trainyard.api import TrainJob, parse
from trainyard.api.verdicts import decoded, violations
from trainyard.errors import TrainyardError
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.response import Response

pytestmark = pytest.mark.cluster

KINDS = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime", "TenantPolicy", "Platform")
RULES = "x-kubernetes-validations"
IMMUTABLE = "self == oldSelf"
PART = "x-trainyard-part"
POD = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"

Body = dict[str, Any]


@pytest.fixture(scope="module")
def server(cluster: LiveCluster) -> Iterator[BlockingSession]:
    """A connection to a cluster that has our CRDs."""
    text = "\n---\n".join(json.dumps(definition) for definition in definitions())
    require(cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text))
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions()]
    require(cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names))
    for plural in ("trainjobs", "trainingruntimes", "tenantpolicies"):
        require(cluster.kubectl("get", plural, "-n", "default"))
    with BlockingSession(cluster.kubeconfig) as session:
        yield session
    require(cluster.kubectl("delete", *names))


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


@pytest.fixture
def stored(server: BlockingSession) -> Iterator[Body]:
    """A TrainJob that has a value in every field that may not change."""
    job = Kind("TrainJob")
    body = job.body("spec", deepcopy(FULL), "stored")
    answer = server.request("POST", job.address, body)
    assert answer.ok, answer.message
    yield dict(answer.body)
    server.request("DELETE", f"{job.address}/stored")


def created(server: BlockingSession, kind: Kind, body: Mapping[str, Any]) -> Response:
    return server.request("POST", kind.address, body, dry_run=True)


def fault(case: Case, answer: Response) -> str | None:
    """Return how an answer is not the one of the case; a refusal must point at the field."""
    if case.accepted or answer.status != 422:
        return None if case.accepted == answer.ok else f"{case}: {answer.status} {answer.message[:300]}"
    start = case.path.replace("[]", "[0]").partition("{")[0]
    causes = [cause.get("field", "") for cause in (answer.body.get("details") or {}).get("causes", ())]
    pointed = any(field.startswith(start) for field in causes) or answer.message.endswith(start.partition(".")[2])
    return None if pointed else f"{case}: {answer.message[:300]}"


def files_say(kind: Kind, body: Body) -> bool:
    """Return whether the object would be accepted where there is no API server."""
    try:
        parse(kind.model, decoded(kind.model, body))
    except TrainyardError:
        return False
    return not any(violations(kind.model, body))


def test_bounds(server: BlockingSession, kind: Kind) -> None:
    cases = list(bounds(kind))
    faults = [found for case in cases if (found := fault(case, created(server, kind, case.body)))]
    assert faults == []
    embedded = {field.path for field in kind.fields() if PART in field.schema}
    reviewed = [
        case
        for case in cases
        if not (case.path in embedded and case.what == "the same twice") and ".metrics[]" not in case.path
    ]
    assert [str(case) for case in reviewed if files_say(kind, case.body) != case.accepted] == []


def test_bounds_of_the_status(server: BlockingSession, stored: Body) -> None:
    job = Kind("TrainJob")
    faults = []
    for case in bounds(job, "status"):
        body = {**stored, "status": case.body["status"]}
        answer = server.request("PUT", f"{job.address}/stored/status", body, dry_run=True)
        faults.append(fault(case, answer))
    assert [found for found in faults if found] == []


def test_defaults(server: BlockingSession, kind: Kind) -> None:
    tried = 0
    for field in kind.fields():
        schema = kind.node(field.path)
        if "default" not in schema:
            continue
        above, _, name = field.path.rpartition(".")
        parent = {key: inner for key, inner in kind.minimal(kind.node(above), above).items() if key != name}
        answer = created(server, kind, kind.body(above, parent))
        assert answer.ok, answer.message
        assert value_at(answer.body, field.path) == schema["default"], field.path
        assert value_at(decoded(kind.model, kind.body(above, parent)), field.path) == schema["default"], field.path
        tried += 1
    assert tried == {"TrainJob": 6, "TenantPolicy": 4, "Platform": 9}.get(kind.kind, tried)


def test_unknown_fields_are_dropped_everywhere(server: BlockingSession, kind: Kind) -> None:
    for field in kind.fields():
        schema = kind.node(field.path)
        if schema.get("type") != "object" or "additionalProperties" in schema:
            continue
        value = {**kind.minimal(schema, field.path), "unheardOf": 1}
        if "minProperties" in schema:
            value |= {name: {} for name in list(schema["properties"])[:1]}
        answer = created(server, kind, kind.body(field.path, value))
        assert answer.ok, (field.path, answer.message)
        kept = "unheardOf" in value_at(answer.body, field.path)
        assert kept == schema.get("x-kubernetes-preserve-unknown-fields", False), field.path


def test_every_rule(server: BlockingSession, kind: Kind) -> None:
    ruled = RULED.get(kind.kind, RUNTIME_RULES)
    found = {
        (field.path, rule["message"])
        for field in kind.fields()
        for rule in field.schema.get(RULES, ())
        if rule["rule"] != IMMUTABLE
    }
    found |= {("", rule["message"]) for rule in kind.schema.get(RULES, ())}
    assert {
        (path, message) for path, message in found if not any(message.startswith(text) for _, text in ruled)
    } == set()
    for (path, message), (accepted, refused) in ruled.items():
        for value in accepted:
            body = ruled_body(kind, path, value)
            answer = created(server, kind, body)
            assert answer.ok, (path, value, answer.message)
            assert files_say(kind, body), (path, value)
        for value in refused:
            body = ruled_body(kind, path, value)
            answer = created(server, kind, body)
            assert answer.status == 422, (path, value, answer.status)
            assert message in answer.message, (path, value, answer.message)
            assert not files_say(kind, body), (path, value)


def test_the_rule_of_the_status(server: BlockingSession, stored: Body) -> None:
    address = f"{Kind('TrainJob').address}/stored/status"
    body = {**stored, "status": {"trainerStatus": {"progressPercentage": 1}}}
    answer = server.request("PUT", address, body, dry_run=True)
    assert "lastUpdatedTime is required" in answer.message
    body["status"]["trainerStatus"]["lastUpdatedTime"] = "2026-01-01T00:00:00Z"
    assert server.request("PUT", address, body, dry_run=True).ok


def test_immutability(server: BlockingSession, stored: Body) -> None:
    job = Kind("TrainJob")
    immutable = {
        field.path
        for field in job.fields()
        if any(rule["rule"] == IMMUTABLE for rule in job.node(field.path).get(RULES, ()))
    }
    assert immutable == CHANGED.keys() | {"spec.runtimePatches[].manager"}
    for path, value in CHANGED.items():
        body = changed(stored, path, value)
        answer = server.request("PUT", f"{job.address}/stored", body, dry_run=True)
        assert answer.status == 422, path
        assert "field is immutable" in answer.message, path
        assert [finding.message for finding in violations(TrainJob, body, stored)] == ["field is immutable"], path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.suspend", False),
        ("spec.labels", {"a": "b"}),
        ("spec.annotations", {"a": "b"}),
        ("spec.podSpecOverrides", [{"targetJobs": [{"name": "node"}]}]),
        ("spec.podTemplateOverrides", [{"targetJobs": [{"name": "node"}]}]),
        ("spec.runtimePatches", [{"manager": "c.io/d"}]),
        (f"{POD}.nodeSelector", {"a": "b"}),
        (f"{POD}.tolerations", [{"key": "a"}]),
        (f"{POD}.schedulingGates", [{"name": "a"}]),
        ("spec.trainer", None),
        ("spec.initializer", None),
        ("spec.activeDeadlineSeconds", None),
    ],
)
def test_what_may_change_as_far_as_the_schema_goes(
    server: BlockingSession, stored: Body, path: str, value: Any
) -> None:
    body = changed(stored, path, value)
    answer = server.request("PUT", f"{Kind('TrainJob').address}/stored", body, dry_run=True)
    assert answer.ok, answer.message
    assert list(violations(TrainJob, body, stored)) == []


@pytest.mark.parametrize("plural", ["trainingruntimes", "clustertrainingruntimes"])
def test_the_template_is_jobsets(server: BlockingSession, plural: str) -> None:
    kind = Kind({"trainingruntimes": "TrainingRuntime"}.get(plural, "ClusterTrainingRuntime"))
    jobs = [{"name": "node", "template": {"spec": {"template": {}}}}]
    answer = created(server, kind, kind.body("spec", {"template": {"spec": {"replicatedJobs": jobs}}}))
    replicated = answer.body["spec"]["template"]["spec"]["replicatedJobs"][0]
    assert (replicated["replicas"], replicated["groupName"]) == (1, "default")
    broken = {"replicatedJobs": [{**jobs[0], "dependsOn": [{"name": "a", "status": "Gone"}]}]}
    assert created(server, kind, kind.body("spec", {"template": {"spec": broken}})).status == 422


def ruled_body(kind: Kind, path: str, value: Any) -> Body:
    return (
        kind.body("spec", kind.minimal(kind.schema["properties"]["spec"], "spec"), value)
        if not path
        else kind.body(path, value)
    )


def value_at(body: Any, path: str) -> Any:
    for token in tokens(path):
        body = body[0] if token == "items" else body["a"] if token == "additionalProperties" else body[token]
    return body


def changed(body: Body, path: str, value: Any) -> Body:
    """Return a copy with another value at a path; None removes it."""
    result = deepcopy(body)
    *above, last = tokens(path)
    place = value_at(result, ".".join(above).replace(".items", "[]"))
    place.pop(last, None)
    if value is not None:
        place[last] = value
    return result


FULL: Body = {
    "runtimeRef": {"name": "r"},
    "initializer": {"dataset": {"storageUri": "hf://a/b"}},
    "trainer": {"image": "one", "numProcPerNode": 2},
    "activeDeadlineSeconds": 5,
    "suspend": True,
    "runtimePatches": [
        {
            "manager": "a.io/b",
            "trainingRuntimeSpec": {
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {
                                "name": "node",
                                "template": {
                                    "spec": {
                                        "template": {
                                            "spec": {
                                                "serviceAccountName": "a",
                                                "terminationGracePeriodSeconds": 1,
                                                "volumes": [{"name": "a", "emptyDir": {}}],
                                                "initContainers": [{"name": "a"}],
                                                "containers": [{"name": "a"}],
                                                "imagePullSecrets": [{"name": "a"}],
                                                "securityContext": {"runAsUser": 1},
                                            }
                                        }
                                    }
                                },
                            }
                        ]
                    }
                }
            },
        }
    ],
}

CHANGED: dict[str, Any] = {
    "spec.runtimeRef": {"name": "other"},
    "spec.initializer": {"dataset": {"storageUri": "hf://c/d"}},
    "spec.trainer": {"image": "other", "numProcPerNode": 2},
    "spec.activeDeadlineSeconds": 9,
    "spec.managedBy": "kueue.x-k8s.io/multikueue",
    f"{POD}.serviceAccountName": "b",
    f"{POD}.terminationGracePeriodSeconds": 2,
    f"{POD}.volumes": [{"name": "b", "emptyDir": {}}],
    f"{POD}.initContainers": [{"name": "a", "env": [{"name": "A"}]}],
    f"{POD}.containers": [{"name": "b"}],
    f"{POD}.imagePullSecrets": [{"name": "b"}],
    f"{POD}.securityContext": {"runAsUser": 2},
}
"""Another value for every field that may not change; the manager is the key of its entry, so it cannot."""

_ELASTIC = {"elasticPolicy": {}}
_URI = (["", "hf://a/b", "s3://bucket"], ["no", "://x", "hf:/a"])
RULED: dict[str, dict[tuple[str, str], tuple[list[Any], list[Any]]]] = {
    "TrainJob": {
        ("", "metadata.name must match RFC 1035 DNS label format"): (["a", "a-1"], ["1a"]),
        ("", "metadata.name must be no more than 63 characters"): (["a" * 63], ["a" * 64]),
        ("spec.initializer.dataset.storageUri", "storageUri may be empty"): _URI,
        ("spec.initializer.model.storageUri", "storageUri may be empty"): _URI,
        ("spec.managedBy", "ManagedBy must be"): (
            ["trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"],
            ["", "else"],
        ),
        ("spec.trainer.numProcPerNode", "numProcPerNode must be 1 or more"): (
            [1, 2**31 - 1],
            [0, -1, 2**31, "auto", "cpu", "gpu", "4"],
        ),
    },
    "TenantPolicy": {
        ("", "TNP-001: "): (["tenant"], ["other"]),
        ("spec", "TNP-002: "): (
            [{}, {"queues": ["a"], "defaultQueue": "a"}],
            [{"defaultQueue": "a"}, {"queues": ["a"], "defaultQueue": "b"}],
        ),
    },
    "Platform": {("", "PLT-001: "): (["platform"], ["other"])},
}
RUNTIME_RULES: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("spec.mlPolicy", "MLP-001: "): (
        [{}, {"torch": {}}, {"ray": {}, "numNodes": 2}],
        [
            {"torch": {}, "mpi": {}},
            {"jax": {}, "flux": {}},
            {"xgboost": {}, "ray": {}},
            {"tensorflow": {}, "paddle": {}},
        ],
    ),
    ("spec.mlPolicy", "MLP-002: "): (
        [{"numNodes": 2, "torch": {}}, {"torch": _ELASTIC}],
        [{"numNodes": 2, "torch": _ELASTIC}],
    ),
    ("spec.mlPolicy.torch.elasticPolicy", "MLP-003: "): (
        [{}, {"minNodes": 3}, {"maxNodes": 3}, {"minNodes": 2, "maxNodes": 2}],
        [{"minNodes": 3, "maxNodes": 2}],
    ),
    ("spec.mlPolicy.torch.numProcPerNode", "NumProcPerNode must be equal to"): (
        [1, 2**31 - 1, "auto", "cpu", "gpu"],
        [0, -1, 2**31, "4", "all", ""],
    ),
    ("spec.mlPolicy.torch.envInjection.targets[].containerNames", "containerNames must not include"): (
        [["a", "nodes"]],
        [["node"], ["a", "node"]],
    ),
    ("spec.mlPolicy.flux.numProcPerNode", "NumProcPerNode in fluxPolicy must be >= 1"): ([1], [0]),
    ("spec.podGroupPolicy", "PGP-001: "): (
        [{}, {"kai": {}}],
        [{"volcano": {}, "coscheduling": {}}, {"volcano": {}, "kai": {}}],
    ),
    ("spec.podGroupPolicy.volcano.networkTopology", "PGP-002: "): (
        [
            {},
            {"highestTierAllowed": 2},
            {"highestTierName": "rack"},
            {"highestTierName": "rack", "highestTierAllowed": 1},
        ],
        [{"highestTierName": "rack", "highestTierAllowed": 2}],
    ),
    ("spec.podGroupPolicy.volcano.subGroupPolicy[].networkTopology", "PGP-002: "): (
        [{"highestTierAllowed": 2}, {"highestTierName": "rack"}],
        [{"highestTierName": "rack", "highestTierAllowed": 2}],
    ),
}
