from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.controller.job_sets import as_created, resume_patch, same_immutable_fields, summary

Body = dict[str, Any]
TRAIN_JOB = {"metadata": {"name": "job"}}


def job_set(**pod: Any) -> Body:
    pods = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "node", "image": "i:1"}], **pod}}
    jobs = [{"name": "node", "template": {"spec": {"parallelism": 2, "template": pods}}}]
    return {"kind": "JobSet", "metadata": {"name": "job"}, "spec": {"suspend": False, "replicatedJobs": jobs}}


def stored(rendered: Body, *, digest: bool = True) -> Body:
    """Return a JobSet as stored by the API server, with defaults that were not rendered."""
    body = as_created(rendered, TRAIN_JOB)
    job = body["spec"]["replicatedJobs"][0]
    spec = job["template"]["spec"]
    defaulted = {**spec["template"], "spec": {**spec["template"]["spec"], "restartPolicy": "OnFailure"}}
    template = {"metadata": {}, "spec": {**spec, "completionMode": "Indexed", "template": defaulted}}
    body["spec"] = {**body["spec"], "suspend": True, "startupPolicy": {"startupPolicyOrder": "AnyOrder"}}
    body["spec"]["replicatedJobs"] = [{"groupName": "default", "replicas": 1, **job, "template": template}]
    metadata = {**body["metadata"], "uid": "u", "resourceVersion": "3"}
    return {**body, "metadata": metadata if digest else {**metadata, "annotations": {}}}


@pytest.mark.parametrize("digest", [True, False])
@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"nodeSelector": {"rack": "1"}}, True),
        ({"tolerations": [{"key": "gpu"}]}, True),
        ({"schedulingGates": [{"name": "wait"}]}, True),
        ({"priorityClassName": "high"}, False),
        ({"containers": [{"name": "node", "image": "i:2"}]}, False),
        ({"containers": [{"name": "node", "image": "i:1"}, {"name": "more"}]}, False),
    ],
)
def test_immutable_fields_are_distinguished_from_mutable_ones(change: Body, same: bool, digest: bool) -> None:
    assert same_immutable_fields(job_set(**change), stored(job_set(), digest=digest)) is same


def test_a_field_that_is_no_longer_rendered_differs_by_the_digest() -> None:
    before = stored(job_set(priorityClassName="high"))
    assert not same_immutable_fields(job_set(), before)


def test_resuming_changes_what_may_change_and_nothing_else() -> None:
    before = stored(job_set(nodeSelector={"rack": "1"}))
    patch = resume_patch(job_set(tolerations=[{"key": "gpu"}]), before, TRAIN_JOB, changes=True)
    assert patch["spec"]["suspend"] is False
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "3", "labels": {"trainyard.dev/train-job": "job"}}
    [job] = patch["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]["template"]
    assert pods["spec"]["tolerations"] == [{"key": "gpu"}]
    assert "nodeSelector" not in pods["spec"]
    assert pods["spec"]["restartPolicy"] == "OnFailure"
    assert (job["groupName"], job["template"]["spec"]["completionMode"]) == ("default", "Indexed")


def test_resuming_as_it_is_says_only_that_it_resumes() -> None:
    patch = resume_patch(job_set(priorityClassName="high"), stored(job_set()), TRAIN_JOB, changes=False)
    assert patch["spec"] == {"suspend": False}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "template", "spec", "metadata", "replicatedJobs", "labels", "conditions", "type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(spec=anything, status=anything, annotations=anything, labels=anything)
def test_a_summary_is_made_of_whatever_a_crd_admits(spec: Any, status: Any, annotations: Any, labels: Any) -> None:
    metadata = {"name": "n", "namespace": "m", "annotations": annotations, "labels": labels}
    kept = summary({"metadata": metadata, "spec": spec, "status": status})
    assert kept["metadata"]["name"] == "n"
    assert isinstance(kept["spec"]["suspend"], bool)
    assert all("type" in entry for entry in kept["status"]["conditions"])
