"""Input that is out of bounds or of the wrong type is rejected with its path, before it is built from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.convert.conversions import bodies_of
from tests.convert.test_properties import conversion_of
from trainyard.errors import TrainyardError
from trainyard.jobs.render.hosts import MOST_PODS


def job(name: str) -> Any:
    (body,) = bodies_of(name)
    return body


@pytest.mark.parametrize("nodes", [MOST_PODS + 1, 2**31 - 1, 10**12])
def test_an_elastic_job_has_at_most_as_many_nodes_as_a_job_has_pods(nodes: int) -> None:
    body = job("pytorch-elastic-etcd")
    body["spec"]["elasticPolicy"]["maxReplicas"] = nodes
    with pytest.raises(TrainyardError, match=rf"elasticPolicy.maxReplicas would run {nodes} pods; .* {MOST_PODS} "):
        conversion_of(body)


def test_an_elastic_job_may_have_that_many() -> None:
    body = job("pytorch-elastic-etcd")
    body["spec"]["elasticPolicy"]["maxReplicas"] = MOST_PODS
    assert conversion_of(body).objects


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_volume_mount_of_spark_is_an_object(role: str) -> None:
    body = job("spark-python")
    body["spec"][role]["volumeMounts"] = [5]
    with pytest.raises(TrainyardError, match=r"volumeMounts\[0\]"):
        conversion_of(body)
