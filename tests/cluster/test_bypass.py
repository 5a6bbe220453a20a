"""A user with a tenant's rights gets its share and nothing more, whatever they try."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.bypass import GROUPS, Attempt, Cluster, load_attempts
from tests.cluster.bypass_objects import KINDS, TENANT
from tests.support import LiveCluster, awaited
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.response import Response
from trainyard.quantity import parse
from trainyard.settings.tenancy import TenantSettings

pytestmark = pytest.mark.cluster

LISTED = load_attempts()
ATTEMPTS = [each for each in LISTED if each.refusals]
RIGHTS = [each for each in LISTED if not each.refusals]
GPUS = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
RELEASED = {"annotations": {"trainyard.dev/released": "0" * 64}}
ACCOUNTS = ("operator", "trainer")
"""Accounts of the namespace: one that pods may run as, and one that another program needs."""
CARELESS = {
    "": [
        "serviceaccounts/token",
        *("pods", "pods/ephemeralcontainers", "pods/eviction", "pods/status", "pods/resize"),
        *("configmaps", "secrets", "services", "namespaces", "resourcequotas", "limitranges"),
        "resourcequotas/status",
    ],
    "apps": [
        "deployments",
        "deployments/scale",
        "statefulsets",
        "statefulsets/scale",
        "daemonsets",
        "replicasets",
        "replicasets/scale",
    ],
    "batch": ["cronjobs"],
    "policy": ["poddisruptionbudgets"],
    "resource.k8s.io": ["resourceclaims", "resourceclaimtemplates"],
    "scheduling.k8s.io": ["priorityclasses"],
    "scheduling.volcano.sh": ["podgroups", "queues", "queues/status"],
    "topology.volcano.sh": ["hypernodes"],
    "bus.volcano.sh": ["commands"],
    "batch.volcano.sh": ["cronjobs"],
    "flow.volcano.sh": ["jobflows", "jobtemplates"],
    "trainyard.dev": ["*"],
    "admissionregistration.k8s.io": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
}
"""Permissions that were granted: all but the policies themselves, which the API server lets no policy protect."""

FRAMEWORK = "trainer.kubeflow.org/framework"

COUNTED = {
    "count/trainjobs.trainer.kubeflow.org": ("submit", "train-job"),
    "count/trainingruntimes.trainer.kubeflow.org": ("author", "runtime"),
    "count/pods": ("raw", "pod"),
    "count/jobs.batch": ("raw", "job"),
    "count/jobsets.jobset.x-k8s.io": ("raw", "job-set"),
    "count/jobs.batch.volcano.sh": ("raw", "volcano-job"),
    "count/podgroups.scheduling.volcano.sh": ("careless", "pod-group"),
}
"""Amounts of the default quota of objects, with who creates what they count."""


def required(answer: Response) -> Response:
    assert answer.ok, answer.message
    return answer


@pytest.fixture(scope="module")
def attacked(platform: LiveCluster) -> Iterator[Cluster]:
    """The platform with objects of the tenant that can be attacked, and with a role that is much too wide."""
    api = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["*"]} for group, names in CARELESS.items()]
    reference = {"apiGroup": api, "kind": "ClusterRole", "name": "careless"}
    subjects = [{"apiGroup": api, "kind": "Group", "name": name} for name in GROUPS["careless"]]
    common = {"apiVersion": f"{api}/v1", "metadata": {"name": "careless"}}
    with BlockingSession(platform.kubeconfig) as session:
        cluster = Cluster(session)
        session.create(f"/apis/{api}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": rules})
        binding = {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}
        session.create(f"/apis/{api}/v1/clusterrolebindings", binding)
        try:
            for name in ACCOUNTS:
                body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
                session.create(f"/api/v1/namespaces/{TENANT}/serviceaccounts", body)
            required(cluster.create("author", "runtime", "good"))
            required(cluster.create("author", "runtime", "eights", container=GPUS))
            required(cluster.create("author", "runtime", "released", metadata=RELEASED))
            required(cluster.create("submit", "train-job", "held"))
            required(cluster.create("raw", "job-set", "own"))
            required(cluster.create("raw", "pod", "waiting", container={"resources": {"requests": {"cpu": "1"}}}))
            required(cluster.create("submit", "claim", "waiting", spec={"storageClassName": "fast"}))
            unbound = {"nodeSelector": {"kubernetes.io/os": "none"}}
            required(cluster.create("raw", "volcano-job", "waiting", pod=unbound, container=GPUS))
            required(cluster.create("careless", "pod-group", "own.waiting"))
            awaited("the JobSet of the held TrainJob", lambda: cluster.object("JobSet", "held"))
            awaited("the PodGroup of the held TrainJob", lambda: cluster.object("PodGroup", "held"))
            awaited("its snapshot", lambda: cluster.object("ConfigMap", "held-runtime-snapshot"))
            awaited("the Jobs", lambda: all(cluster.object("Job", f"{name}-node-0") for name in ("own", "held")))
            awaited("the pod of the Volcano Job", lambda: cluster.object("Pod", "waiting-node-0"))
            awaited("a role that is known", lambda: cluster.send("careless", "GET", "/api/v1/namespaces").ok)
            required(cluster.create("careless", "deployment", "served", spec={"replicas": 1}, pod=unbound))
            required(cluster.create("careless", "stateful-set", "kept"))
            required(cluster.create("careless", "replica-set", "kept"))
            token = {"metadata": {"annotations": {"kubernetes.io/service-account.name": "trainer"}}}
            kind_of_token = {"type": "kubernetes.io/service-account-token"}
            required(cluster.create("submit", "secret", "trainer-token", **token, fields=kind_of_token))
            awaited("its pod", lambda: any(name.startswith("served-") for name in cluster.names("Pod")))
            yield cluster
        finally:
            for kind, name in (
                *(("TrainJob", "held"), ("TrainingRuntime", "good"), ("TrainingRuntime", "eights")),
                *(("TrainingRuntime", "released"), ("Deployment", "served"), ("Secret", "trainer-token")),
                *(("StatefulSet", "kept"), ("ReplicaSet", "kept")),
                *(("JobSet", "own"), ("VolcanoJob", "waiting"), ("Pod", "waiting")),
                *(("PersistentVolumeClaim", "waiting"), ("PodGroup", "own.waiting")),
                *(("ClusterRoleBinding", "careless"), ("ClusterRole", "careless")),
                *(("ServiceAccount", name) for name in ACCOUNTS),
            ):
                cluster.delete(kind, name)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=[f"{each.number:03}" for each in ATTEMPTS])
def test_an_attempt_is_refused_by_name_and_leaves_nothing(attacked: Cluster, attempt: Attempt) -> None:
    answer, unchanged = attacked.try_it(attempt)
    text = f"{attempt.name}\nexpected {attempt.content['refused']}, got {answer.status}: {answer.message}"
    assert attempt.refused(answer), text
    assert unchanged, f"{attempt.name}\nsomething was made or changed"


@pytest.mark.parametrize("right", RIGHTS, ids=[f"{each.number:03}" for each in RIGHTS])
def test_what_is_legitimate_succeeds(attacked: Cluster, right: Attempt) -> None:
    if "make" not in right.content:
        answer, _ = attacked.try_it(right)
        assert answer.ok, f"{right.name}: {answer.message}"
        return
    kind, called, answer = attacked.make(right)
    try:
        assert answer.ok, f"{right.name}: {answer.message}"
    finally:
        attacked.delete(kind, called)
    awaited("its end", lambda: attacked.object(kind, called) is None)


def test_the_tenant_may_stop_and_remove_what_is_its_own(attacked: Cluster) -> None:
    required(attacked.create("submit", "train-job", "passing"))
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/red/trainjobs/passing"
    required(attacked.send("submit", "PATCH", path, {"metadata": {"labels": {"mine": "yes"}}}))
    required(attacked.send("submit", "DELETE", path))
    awaited("its end", lambda: attacked.object("TrainJob", "passing") is None)
    required(attacked.create("raw", "pod", "passing"))
    required(attacked.send("raw", "DELETE", "/api/v1/namespaces/red/pods/passing", {"gracePeriodSeconds": 600}))
    awaited("its end", lambda: attacked.object("Pod", "passing") is None)


@pytest.mark.parametrize(
    ("name", "kind", "changes"),
    [
        ("job", "Job", {"podMetadata": {"annotations": {"scheduling.volcano.sh/queue-name": "vision"}}}),
        ("job-set", "JobSet", {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "vision"}}}),
    ],
)
def test_what_is_changed_while_it_is_held_is_reviewed_when_it_resumes(
    attacked: Cluster, name: str, kind: str, changes: dict[str, Any]
) -> None:
    called = "changed-later"
    answer = required(attacked.create("raw", name, called))
    path = f"/apis/{answer.body['apiVersion']}/namespaces/{TENANT}/{kind.lower()}s/{called}"
    change = {"spec": {"template": {"metadata": changes["podMetadata"]}}} if "podMetadata" in changes else changes
    try:
        held = attacked.send("raw", "PATCH", path, change)
        resumed = attacked.send("raw", "PATCH", path, {"spec": {"suspend": False}})
        assert not resumed.ok or not held.ok
        assert "QUE-002" in (held.message or resumed.message)
        stored = attacked.object(kind, called)
        assert stored is not None
        assert stored["spec"]["suspend"] is True
    finally:
        attacked.delete(kind, called)


def test_the_default_quota_refuses_every_kind_that_it_counts(attacked: Cluster) -> None:
    path = f"/api/v1/namespaces/{TENANT}/resourcequotas/tenant"

    def set_to(hard: dict[str, str]) -> None:
        required(attacked.session.request("PATCH", path, {"spec": {"hard": hard}}))

        def known() -> bool:
            status = attacked.session.request("GET", path).body["status"]
            return hard.keys() <= status["used"].keys() and hard.items() <= status["hard"].items()

        awaited("the quota that is set", known)

    shipped = required(attacked.session.request("GET", path)).body["spec"]["hard"]
    defaults = TenantSettings.model_fields["object_quota"].default
    assert {key: parse(str(amount)) for key, amount in shipped.items()} == {
        key: parse(str(amount)) for key, amount in defaults.items()
    }
    set_to(dict.fromkeys(COUNTED, "0"))
    try:
        for key, (who, name) in COUNTED.items():
            answer = attacked.create(who, name, "own.too-many" if name == "pod-group" else "too-many")
            assert answer.status == 403, (key, answer.message)
            assert f"exceeded quota: tenant, requested: {key}=1, used: {key}=" in answer.message
            assert f"limited: {key}=0" in answer.message
    finally:
        set_to({key: shipped[key] for key in COUNTED})


def test_a_gang_that_is_going_away_does_not_change_its_queue(attacked: Cluster) -> None:
    required(attacked.create("careless", "pod-group", "own.leaving"))
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{TENANT}/podgroups/own.leaving"
    try:
        required(attacked.session.request("PATCH", path, {"metadata": {"finalizers": ["example.com/stay"]}}))
        required(attacked.send("careless", "DELETE", path))
        for change in (
            {"spec": {"queue": "research"}},
            {"metadata": {"annotations": {"volcano.sh/preemptable": "false"}}},
        ):
            answer = attacked.send("careless", "PATCH", path, change)
            assert any(rule in answer.message for rule in ("GNG-006", "QUE-00", "TEN-007")), answer.message
    finally:
        required(attacked.send("careless", "PATCH", path, {"metadata": {"finalizers": None}}))
    awaited("its end", lambda: attacked.object("PodGroup", "own.leaving") is None)


def test_a_podgroup_of_pods_that_run_stays(attacked: Cluster) -> None:
    """Without it, the scheduler counts the pods in no queue, and takes nothing back from them."""
    required(attacked.create("raw", "pod-group", "own.busy"))
    path = KINDS["PodGroup"].path(TENANT, "own.busy")
    ended = {"phase": "Completed", "running": 0}
    try:
        required(attacked.session.request("PATCH", path, {"status": {"phase": "Running", "running": 1}}))
        assert "GNG-007" in attacked.send("raw", "DELETE", path).message
        required(attacked.session.request("PATCH", path, {"status": ended}))
        required(attacked.send("raw", "DELETE", path))
    finally:
        attacked.delete("PodGroup", "own.busy")


@pytest.mark.parametrize(("name", "kind"), [("claim", "PersistentVolumeClaim"), ("config-map", "ConfigMap")])
def test_what_has_many_owners_can_be_deleted(attacked: Cluster, name: str, kind: str) -> None:
    """Kubernetes removes its finalizers by updates, which no rule may reject for their cost."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other"}
    owners = [{**owner, "uid": f"00000000-0000-4000-8000-{number:012}"} for number in range(1500)]
    required(attacked.create("submit", name, "shared", metadata={"ownerReferences": owners}))
    attacked.send("submit", "DELETE", KINDS[kind].path(TENANT, "shared"), {"propagationPolicy": "Foreground"})
    awaited("its end", lambda: attacked.object(kind, "shared") is None)


@pytest.mark.parametrize(
    ("who", "name", "kind", "change", "rule"),
    [
        ("submit", "config-map", "ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "ACC-004"),
        ("submit", "secret", "Secret", {"stringData": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "ACC-004"),
        ("author", "runtime", "TrainingRuntime", {"metadata": {"labels": {FRAMEWORK: "unknown"}}}, "LBL-002"),
        ("careless", "service", "Service", {"spec": {"externalIPs": ["10.96.0.1"]}}, "TEN-016"),
    ],
)
def test_what_is_going_away_is_evaluated_and_can_be_released(
    attacked: Cluster, who: str, name: str, kind: str, change: dict[str, Any], rule: str
) -> None:
    required(attacked.create(who, name, "leaving"))
    path = KINDS[kind].path(TENANT, "leaving")
    try:
        required(attacked.session.request("PATCH", path, {"metadata": {"finalizers": ["example.com/stay"]}}))
        required(attacked.send(who, "DELETE", path))
        assert rule in attacked.send(who, "PATCH", path, change).message
    finally:
        required(attacked.send(who, "PATCH", path, {"metadata": {"finalizers": None}}))
    awaited("its end", lambda: attacked.object(kind, "leaving") is None)


def test_a_jobset_that_was_there_before_does_not_become_the_jobs(attacked: Cluster) -> None:
    called = "early"
    # The forged owner does not exist: without a finalizer the garbage collector may take the JobSet away first.
    required(attacked.create("raw", "job-set", called))
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{TENANT}/jobsets/{called}"
    try:
        required(attacked.session.request("PATCH", path, {"metadata": {"finalizers": ["example.com/stay"]}}))
        job = required(attacked.create("submit", "train-job", called)).body
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": called, "uid": job["metadata"]["uid"]}
        forged = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
        attacked.send("raw", "PATCH", path, forged)

        def reported() -> bool:
            events = attacked.session.request("GET", f"/api/v1/namespaces/{TENANT}/events").body["items"]
            return any(
                event["involvedObject"].get("uid") == job["metadata"]["uid"]
                and "so this TrainJob cannot use it" in event["message"]
                for event in events
            )

        awaited("an event that says so", reported)
        stored = attacked.object("JobSet", called)
        assert stored is not None
        assert "TrainJob" not in str(stored["metadata"].get("ownerReferences"))
        assert len(stored["spec"]["replicatedJobs"]) == 1
        assert stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].get("volumes") is None
    finally:
        attacked.session.request("PATCH", path, {"metadata": {"finalizers": None}})
        attacked.delete("TrainJob", called)
        attacked.delete("JobSet", called)


@pytest.mark.parametrize("who", ["submit", "author", "raw"])
@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("impersonate", "", "users"),
        ("impersonate", "", "groups"),
        ("impersonate", "", "serviceaccounts"),
        ("impersonate", "authentication.k8s.io", "uids"),
        ("escalate", "rbac.authorization.k8s.io", "roles"),
        ("bind", "rbac.authorization.k8s.io", "clusterroles"),
        ("approve", "certificates.k8s.io", "signers"),
        ("create", "", "serviceaccounts/token"),
        ("create", "", "pods/exec"),
        ("create", "", "pods/attach"),
        ("create", "", "pods/portforward"),
        ("get", "", "nodes/proxy"),
        ("patch", "", "nodes"),
        ("create", "policy", "poddisruptionbudgets"),
        ("create", "kueue.x-k8s.io", "localqueues"),
        ("update", "kueue.x-k8s.io", "workloads"),
        ("create", "resource.k8s.io", "resourceclaims"),
        ("create", "", "persistentvolumes"),
        ("create", "node.k8s.io", "runtimeclasses"),
        ("create", "scheduling.k8s.io", "priorityclasses"),
        ("delete", "", "events"),
        ("update", "coordination.k8s.io", "leases"),
    ],
)
def test_no_role_of_a_tenant_may_take_anothers_place(
    attacked: Cluster, who: str, verb: str, group: str, resource: str
) -> None:
    name, _, subresource = resource.partition("/")
    attributes = {"namespace": TENANT, "verb": verb, "group": group, "resource": name, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = required(attacked.send(who, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body))
    assert answer.body["status"]["allowed"] is False
