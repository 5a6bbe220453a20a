"""Progress in the life of a TrainJob: what its pods get, and that the reconcile loop leaves what is reported alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    PLATFORMS,
    TRAIN_JOBS,
    Clock,
    Controller,
    change,
    conditions,
    existing,
    job_set_status,
    runtime,
    submit,
)
from tests.controller.test_application import OURS, configuration
from tests.controller.trainer_status.test_server import STORED, platform, pod
from tests.kube.fake_api import FakeApi, eventually
from trainyard.controller.application import Controller as Application
from trainyard.controller.trainer_status.writer import StatusWriter

SERVER = {"service": "localhost", "namespace": "kubeflow-system"}


def reported(api: FakeApi) -> Any:
    body = existing(api, "trainjobs", "job", "team")
    return (body.get("status") or {}).get("trainerStatus")


async def test_nothing_is_made_before_the_authority_is_known(api: FakeApi) -> None:
    known: list[str] = []
    api.put(PLATFORMS, platform(statusServer=SERVER))
    submit(api)
    process = Controller(api, Clock())
    process.cache._authority = lambda: known[0] if known else None
    await process.start()
    await process.settle()
    assert api.find("jobsets", "job", "team") is None
    assert api.find("configmaps", "job-tls-config", "team") is None
    assert "authority of the status server is not known yet" in str(api.of("events"))
    known.append("PEM")
    api.put(CLUSTER_RUNTIMES, {**runtime(), "metadata": {"name": "torch", "labels": {"touched": "yes"}}})
    await eventually(lambda: api.find("jobsets", "job", "team"))
    await process.settle()
    stored = existing(api, "configmaps", "job-tls-config", "team")
    assert stored["data"] == {"ca.crt": "PEM"}
    assert "KUBEFLOW_TRAINER_SERVER_URL" in str(api.find("jobsets", "job", "team"))
    await process.kill()


async def test_without_a_server_of_its_own_a_process_configures_no_jobs_for_it(api: FakeApi) -> None:
    api.put(PLATFORMS, platform(statusServer=SERVER))
    submit(api)
    process = Controller(api, Clock())
    await process.start()
    await process.settle()
    assert "KUBEFLOW_TRAINER" not in str(api.find("jobsets", "job", "team"))
    assert [body["metadata"]["name"] for body in api.of("configmaps")] == ["job-runtime-snapshot"]
    await process.kill()


async def test_a_report_outlives_suspension_resume_and_the_end(api: FakeApi) -> None:
    submit(api)
    process = Controller(api, Clock())
    await process.start()
    await process.settle()
    writer = StatusWriter(process.client, interval=0.01)
    for suspend in (True, False):
        job = existing(api, "trainjobs", "job", "team")
        await writer.write(job, STORED)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": suspend})
        await process.settle()
        assert conditions(api)["Suspended"][0] == str(suspend)
        assert reported(api) == STORED
    change(api, JOB_SETS, "jobsets", "job", status=job_set_status("Completed", "AllJobsCompleted", "done"))
    await process.settle()
    assert conditions(api)["Complete"] == ("True", "AllJobsCompleted")
    assert reported(api) == STORED
    await writer.close()
    await process.kill()


@pytest.mark.slow
async def test_the_sdk_in_a_pod_reports_to_the_webhook_server(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = pytest.importorskip("kubeflow.trainer.backends.kubernetes.utils")
    api.put("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}})
    api.put(PLATFORMS, platform(statusServer=SERVER))
    submit(api)
    api.review = pod("job-node-0-0-abcde")
    controller = Application(configuration(certificates=(OURS,)), api.connection)
    running = asyncio.create_task(controller.run())
    await eventually(controller.ready)
    change(api, TRAIN_JOBS, "trainjobs", "job", metadata={"labels": {"touched": "yes"}})
    await eventually(lambda: api.find("jobsets", "job", "team"))
    change(api, JOB_SETS, "jobsets", "job", status={"replicatedJobsStatus": [{"name": "node"}]})
    await eventually(lambda: "replicatedJobsStatus" in str(controller._cache.job_sets.store.get("team", "job")))
    (job,) = api.find("jobsets", "job", "team")["spec"]["replicatedJobs"]  # type: ignore[index]
    container = job["template"]["spec"]["template"]["spec"]["containers"][0]
    for variable in container["env"]:
        if variable["name"].startswith("KUBEFLOW_TRAINER_SERVER_"):
            value = variable["value"].replace("/var/run/secrets/kubeflow/trainer", str(tmp_path))
            address = f"localhost:{controller.ports['webhook']}"
            monkeypatch.setenv(variable["name"], value.replace("localhost.kubeflow-system.svc:10443", address))
    trusted = existing(api, "configmaps", "job-tls-config", "team")
    (tmp_path / "ca.crt").write_text(trusted["data"]["ca.crt"])
    (tmp_path / "token").write_text("e30.e30.x")
    for name in ("_http_session", "_cached_token"):
        monkeypatch.setattr(sdk, name, None)
    monkeypatch.setattr(sdk, "_last_update_time", float("-inf"))
    assert await asyncio.to_thread(sdk.update_trainjob_status, 42, 120, {"loss": 0.5})
    found = reported(api)
    assert (found["progressPercentage"], found["estimatedRemainingSeconds"]) == (42, 120)
    assert found["metrics"] == [{"name": "loss", "value": "0.5"}]
    controller.stop()
    await asyncio.wait_for(running, 5)
