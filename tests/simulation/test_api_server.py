"""What the model refuses and does; that the real server does the same is tested by test_conformance."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.simulation.api_server import ApiServer, RefusedError, decode
from tests.simulation.kinds import kind_of
from tests.simulation.webhooks import JobSetWebhook, PodGroupWebhook

CONFIG_MAPS = "/api/v1/namespaces/team/configmaps"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
TRAIN_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class Person:
    """Sends requests to a model."""

    def __init__(self) -> None:
        self.webhook, queues = JobSetWebhook(), PodGroupWebhook()
        self.server = ApiServer(self.webhook, queues)
        queues.server = self.server
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})

    def send(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> Any:
        data = None if body is None else orjson.dumps(body)
        return orjson.loads(self.server.handle(method, path, query, data, content_type=content_type)[1])

    def refused(self, *arguments: Any, **query: str) -> tuple[int, str]:
        with pytest.raises(RefusedError) as caught:
            self.send(*arguments, **query)
        return caught.value.status, caught.value.reason

    def heard(self, path: str, after: int, **query: str) -> list[tuple[str, str]]:
        lines, _ = self.server.watch_lines(decode("GET", path, {"watch": "true", **query}, None), after)
        events = [orjson.loads(line) for line in lines.splitlines()]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


@pytest.fixture
def person() -> Person:
    return Person()


def job_set(*, suspend: bool) -> Any:
    pod = {"containers": [{"name": "node", "image": "image:1"}]}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    return {"metadata": {"name": "a"}, "spec": {"suspend": suspend, "replicatedJobs": [job]}}


def with_pod(stored: Any, **fields: Any) -> Any:
    body = orjson.loads(orjson.dumps(stored))
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= fields
    return {"spec": body["spec"]}


def test_a_name_is_taken_once_and_needs_its_namespace(person: Person) -> None:
    person.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert person.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}) == (409, "AlreadyExists")
    other = CONFIG_MAPS.replace("team", "nowhere")
    assert person.refused("POST", other, {"metadata": {"name": "a"}}) == (404, "NotFound")


def test_a_dry_run_answers_like_a_creation_and_stores_nothing(person: Person) -> None:
    before = person.server.version
    body = {"metadata": {"name": "a"}, "spec": {}}
    answer = person.send("POST", JOBS, body, dryRun="All")
    assert (answer["metadata"]["name"], "uid" in answer["metadata"]) == ("a", True)
    assert (person.refused("GET", f"{JOBS}/a"), person.server.version) == ((404, "NotFound"), before)
    person.send("POST", JOBS, body)
    assert person.refused("POST", JOBS, body, dryRun="All") == (409, "AlreadyExists")


def test_preconditions_of_a_patch(person: Person) -> None:
    person.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    path = f"{CONFIG_MAPS}/a"
    assert person.refused("PATCH", path, {"metadata": {"uid": "other"}}, MERGE) == (422, "Invalid")
    assert person.refused("PATCH", path, {"metadata": {"resourceVersion": "1"}}, MERGE) == (409, "Conflict")


def test_a_patch_of_the_status_changes_nothing_else_and_knows_no_uid(person: Person) -> None:
    person.send("POST", TRAIN_JOBS, {"metadata": {"name": "a"}, "spec": {}, "status": {"jobsStatus": [1]}})
    patch = {"metadata": {"uid": "other", "labels": {"a": "b"}}, "spec": {"suspend": True}, "status": {"x": 1}}
    stored = person.send("PATCH", f"{TRAIN_JOBS}/a/status", patch, MERGE)
    assert (stored["status"], stored["spec"], stored["metadata"]["generation"]) == ({"x": 1}, {}, 1)
    assert "labels" not in stored["metadata"]


def test_what_changes_nothing_writes_nothing(person: Person) -> None:
    person.send("POST", TRAIN_JOBS, {"metadata": {"name": "a"}, "spec": {"suspend": True}})
    before = person.server.version
    person.send("PATCH", f"{TRAIN_JOBS}/a", {"spec": {"suspend": True}}, MERGE)
    assert person.server.version == before


def test_finalizers_hold_a_deletion(person: Person) -> None:
    person.send("POST", CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/kept"]}})
    assert "deletionTimestamp" in person.send("DELETE", f"{CONFIG_MAPS}/a", {})["metadata"]
    person.send("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, MERGE)
    assert person.refused("GET", f"{CONFIG_MAPS}/a") == (404, "NotFound")


def test_a_deletion_means_one_incarnation(person: Person) -> None:
    person.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    body = {"preconditions": {"uid": "other"}}
    assert person.refused("DELETE", f"{CONFIG_MAPS}/a", body) == (409, "Conflict")


def test_fields_have_owners(person: Person) -> None:
    path = f"{CONFIG_MAPS}/a"
    mine = {"metadata": {"name": "a", "namespace": "team"}, "data": {"x": "1", "y": "1"}}
    person.send("PATCH", path, mine, APPLY, fieldManager="red", force="false")
    theirs = {**mine, "data": {"x": "2"}}
    assert person.refused("PATCH", path, theirs, APPLY, fieldManager="blue", force="false") == (409, "Conflict")
    person.send("PATCH", path, theirs, APPLY, fieldManager="blue", force="true")
    left = person.send("PATCH", path, {**mine, "data": {}}, APPLY, fieldManager="red", force="false")
    assert left["data"] == {"x": "2"}


def test_a_running_job_set_changes_in_nothing_but_suspend_and_ttl(person: Person) -> None:
    stored = person.send("POST", JOB_SETS, job_set(suspend=False))
    path = f"{JOB_SETS}/a"
    assert person.refused("PATCH", path, with_pod(stored, nodeSelector={"a": "b"}), MERGE) == (422, "Invalid")
    assert person.refused("PATCH", path, {"spec": {"successPolicy": {"operator": "Any"}}}, MERGE)[0] == 422
    changed = person.send("PATCH", path, {"spec": {"ttlSecondsAfterFinished": 5}}, MERGE)
    assert changed["metadata"]["generation"] == 2


def test_a_suspended_job_set_changes_in_where_its_pods_go(person: Person) -> None:
    stored = person.send("POST", JOB_SETS, job_set(suspend=True))
    path = f"{JOB_SETS}/a"
    person.send("PATCH", path, with_pod(stored, nodeSelector={"a": "b"}), MERGE)
    image = with_pod(stored, containers=[{"name": "node", "image": "image:2"}])
    assert person.refused("PATCH", path, image, MERGE) == (422, "Invalid")


def test_a_webhook_that_is_away_refuses_everything_but_the_status(person: Person) -> None:
    person.send("POST", JOB_SETS, job_set(suspend=False))
    person.webhook.away = True
    assert person.refused("PATCH", f"{JOB_SETS}/a", {"spec": {"suspend": True}}, MERGE) == (500, "InternalError")
    person.send("PATCH", f"{JOB_SETS}/a/status", {"status": {"restarts": 1}}, MERGE)
    person.send("DELETE", f"{JOB_SETS}/a", {})


def test_a_pod_group_needs_an_open_queue(person: Person) -> None:
    group = {"metadata": {"name": "a"}, "spec": {"queue": "default"}}
    assert person.refused("POST", POD_GROUPS, group)[0] == 400
    person.send("POST", QUEUES, {"metadata": {"name": "default"}})
    assert person.refused("POST", POD_GROUPS, group)[0] == 400
    person.send("PATCH", f"{QUEUES}/default/status", {"status": {"state": "Open"}}, MERGE)
    person.send("POST", POD_GROUPS, group)


def test_a_selection_makes_objects_come_and_go(person: Person) -> None:
    start = person.server.version
    for labels in ({"color": "red"}, {"color": "blue"}):
        name = labels["color"]
        person.send("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})
    person.send("PATCH", f"{CONFIG_MAPS}/red", {"metadata": {"labels": {"color": "blue"}}}, MERGE)
    person.send("PATCH", f"{CONFIG_MAPS}/blue", {"metadata": {"labels": {"color": "red"}}}, MERGE)
    heard = person.heard("/api/v1/configmaps", start, labelSelector="color=red")
    assert heard == [("ADDED", "red"), ("DELETED", "red"), ("ADDED", "blue")]
    listed = person.send("GET", "/api/v1/configmaps", labelSelector="!color")
    assert listed["items"] == []


def test_history_before_a_compaction_is_gone(person: Person) -> None:
    start = person.server.version
    person.send("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    person.server.compact()
    with pytest.raises(RefusedError) as caught:
        person.heard("/api/v1/configmaps", start)
    assert caught.value.status == 410


def test_pages_are_of_one_moment(person: Person) -> None:
    for name in "abc":
        person.send("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    first = person.send("GET", "/api/v1/configmaps", limit="2")
    person.send("DELETE", f"{CONFIG_MAPS}/c", {})
    query = {"limit": "2", "continue": first["metadata"]["continue"]}
    second = person.send("GET", "/api/v1/configmaps", **query)
    names = [item["metadata"]["name"] for item in (*first["items"], *second["items"])]
    assert names == ["a", "b", "c"]


def test_only_known_kinds_are_served(person: Person) -> None:
    assert kind_of("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups") is None
    assert person.refused("GET", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups") == (404, "NotFound")
