"""Keys and host files of jobs: created once, before the pods that mount them, and never adopted from other owners."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519

from tests.controller.harness import CLUSTER_RUNTIMES, TRAIN_JOBS, change, reconciled, settled, train_job
from tests.kube.fake_api import FakeApi, error
from trainyard.controller.keys import GENERATORS, generate
from trainyard.jobs.render.frameworks import FRAMEWORKS

Body = dict[str, Any]
SECRETS = "/api/v1/secrets"
CONFIG_MAPS = "/api/v1/configmaps"
SECRET, HOST_FILE = "job-mpi-ssh-auth", "job-mpi-hostfile"
WRITES = [
    ("POST", "/api/v1/namespaces/team/configmaps"),
    ("POST", "/api/v1/namespaces/team/secrets"),
    ("POST", "/api/v1/namespaces/team/configmaps"),
    ("POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"),
    ("PATCH", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"),
]


def runtime() -> Body:
    def job(name: str, labels: Body) -> Body:
        pod = {"containers": [{"name": "node", "image": "image:1"}]}
        return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}}}

    jobs = [job("node", {}), job("launcher", {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"})]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch", "uid": "uid-of-torch"},
        "spec": {"mlPolicy": {"mpi": {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


def submit(api: FakeApi, **spec: Any) -> Body:
    """Put a runtime whose pods need keys, and TrainJob job, which uses it."""
    api.put(CLUSTER_RUNTIMES, runtime())
    return api.put(TRAIN_JOBS, train_job(**spec))


def found(api: FakeApi, plural: str, name: str) -> Body:
    body = api.find(plural, name, "team")
    assert body is not None, name
    return body


def test_every_kind_of_keys_that_a_framework_names_is_generated() -> None:
    assert {framework.keys for framework in FRAMEWORKS.values()} - {None} == set(GENERATORS)


def test_ssh_keys_are_a_pair_that_ssh_can_read() -> None:
    values = generate("ssh")
    key = serialization.load_pem_private_key(values["ssh-privatekey"].encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp521r1"
    assert values["ssh-privatekey"].startswith("-----BEGIN EC PRIVATE KEY-----")
    public = serialization.load_ssh_public_key(values["ssh-publickey"].encode())
    assert public == key.public_key()
    assert values["ssh-publickey"].startswith("ecdsa-sha2-nistp521 ")
    assert values["ssh-publickey"].endswith("\n")
    assert generate("ssh") != values


def test_a_curve_certificate_holds_a_pair_in_zeromqs_base_85() -> None:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

    def decoded(text: str) -> bytes:
        groups = [text[start : start + 5] for start in range(0, len(text), 5)]
        numbers = [
            sum(digits.index(digit) * 85 ** (4 - place) for place, digit in enumerate(group)) for group in groups
        ]
        return b"".join(number.to_bytes(4) for number in numbers)

    certificate = generate("curve")["curve.cert"]
    public, secret = (
        decoded(re.search(rf'^curve$[\s\S]*^    {name}-key = "(.{{40}})"$', certificate, re.M)[1])  # type: ignore[index]
        for name in ("public", "secret")
    )
    assert x25519.X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw() == public
    assert generate("curve")["curve.cert"] != certificate
    assert decoded("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


async def test_keys_and_host_file_are_made_once_before_the_job_set(api: FakeApi) -> None:
    job = submit(api)
    async with settled(api) as process:
        process.manager.queue.add(("team", "job"))
        await process.settle()
    await reconciled(api)
    assert api.writes == WRITES
    secret = found(api, "secrets", SECRET)
    assert (secret["type"], secret["immutable"]) == ("kubernetes.io/ssh-auth", True)
    assert secret["stringData"]["ssh-privatekey"].startswith("-----BEGIN EC PRIVATE KEY-----")
    assert found(api, "configmaps", HOST_FILE)["data"] == {
        "hostfile": "job-node-0-0.job slots=1\njob-node-0-1.job slots=1\n"
    }
    for body in (secret, found(api, "configmaps", HOST_FILE)):
        [owner] = body["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)
    assert not api.of("events")


async def test_keys_stay_while_a_job_is_suspended_and_resumed_and_no_secret_is_read_in_full(api: FakeApi) -> None:
    submit(api, suspend=True)
    async with settled(api) as process:
        before = found(api, "secrets", SECRET)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
    assert found(api, "secrets", SECRET) == before
    reads = [path for method, path in api.requests if method == "GET" and "secrets" in path]
    assert reads
    assert set(reads) == {f"/api/v1/namespaces/team/secrets/{SECRET}"}
    metadata_only = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert {accept for path, accept in api.accepts if path in reads} == {metadata_only}


async def test_what_was_deleted_is_recreated_when_the_job_resumes(api: FakeApi) -> None:
    submit(api, suspend=True)
    async with settled(api) as process:
        before = found(api, "secrets", SECRET)
        api.remove(SECRETS, "team", SECRET)
        held = found(api, "configmaps", HOST_FILE)
        api.put(CONFIG_MAPS, {**held, "data": {"hostfile": "elsewhere", "more": ""}})
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
    assert found(api, "secrets", SECRET)["stringData"] != before["stringData"]
    assert found(api, "configmaps", HOST_FILE)["data"] == held["data"]


@pytest.mark.parametrize(("path", "kind", "name"), [(SECRETS, "Secret", SECRET), (CONFIG_MAPS, "ConfigMap", HOST_FILE)])
@pytest.mark.parametrize("owned", [False, True])
async def test_a_foreign_object_is_left_unchanged_and_named(
    api: FakeApi, path: str, kind: str, name: str, owned: bool
) -> None:
    owners = [{"kind": "TrainJob", "name": "job", "uid": "former", "controller": True}] if owned else []
    foreign: Body = {
        "kind": kind,
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners},
        "data": {},
    }
    api.put(path, foreign)
    submit(api)
    async with settled(api) as process:
        assert found(api, path.rsplit("/", 1)[1], name)["data"] == {}
        assert api.find("jobsets", "job", "team") is None
        [event] = api.of("events")
        whose = "belongs to TrainJob job" if owned else "has no owner"
        assert f"{kind} {name} exists and {whose}, so this TrainJob cannot use it" in event["message"]
        assert any(due - process.manager.queue._clock() <= 10 for due in process.manager.queue._due.values())
        api.remove(path, "team", name)
        process.manager.queue.add(("team", "job"))
        await process.settle()
    assert api.find("jobsets", "job", "team") is not None


async def test_a_namespace_that_does_not_grant_its_secrets_gets_the_command(api: FakeApi) -> None:
    message = (
        'secrets is forbidden: User "system:serviceaccount:kubeflow-system:trainer" cannot create resource "secrets" '
        'in API group "" in the namespace "team"'
    )
    api.fault = lambda fake, request: error(403, "Forbidden", message) if request.path.endswith("/secrets") else None
    submit(api)
    async with settled(api) as process:
        [event] = api.of("events")
        assert message in event["message"]
        assert "--namespace=team --clusterrole=kubeflow-trainer-job-keys" in event["message"]
        assert "--serviceaccount=kubeflow-system:trainer" in event["message"]
        assert api.find("jobsets", "job", "team") is None
        api.fault = None
        process.manager.queue.add(("team", "job"))
        await process.settle()
    assert api.find("jobsets", "job", "team") is not None


async def test_keys_appear_in_no_event_and_no_log(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    submit(api)
    await reconciled(api)
    private = found(api, "secrets", SECRET)["stringData"]["ssh-privatekey"]
    body = private.splitlines()[1]
    shown = caplog.text + str(api.of("events")) + str(api.of("configmaps"))
    assert body not in shown
    assert base64.b64encode(private.encode()).decode() not in shown
