"""A control plane is up when a tenant's request passes, and not before."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, serving
from tests.support import ROOT
from trainyard.errors import TrainyardError
from trainyard.platform import admission
from trainyard.platform.admission import await_admission
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack

SETTINGS: StackSettings = load_stack(ROOT / "stacks" / "Pulumi.local.yaml")
TENANT = min(SETTINGS.tenants)
NAMESPACES = "/api/v1/namespaces"
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
PASSES = f"tenant {TENANT} can submit"
DENIED = "trainjobs is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
TRANSIENT = [
    "ValidatingAdmissionPolicy 'acc-001.trainyard.dev' denied request: failed to configure policy: failed to find "
    "resource referenced by paramKind: 'trainyard.dev/v1alpha1, Kind=Platform'",
    DENIED + "QUE-002 parameters: TenantPolicy is missing; use a queue",
    'failed calling webhook "validator.trainjob.trainer.kubeflow.org": connection refused',
    'admission webhook "v" denied the request: POL-000 : No policy decision: no answer',
    'trainjobs "admission-probe" is forbidden: status unknown for quota: tenant, resources: count/trainjobs',
]


def installed(api: FakeApi) -> None:
    api.put(NAMESPACES, {"metadata": {"name": TENANT, "labels": {"trainyard.dev/tenant": TENANT}}})
    pod = {"containers": [{"name": "node", "image": "registry.example/torch:1"}]}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    spec = {"template": {"spec": {"replicatedJobs": [job]}}}
    api.put(RUNTIMES, {"metadata": {"name": "torch-distributed"}, "spec": spec})


def refusing(api: FakeApi, answers: list[str], kind: str = "trainjobs", status: int = 403) -> list[str]:
    """Refuse dry runs of a kind with these messages, one after the other; keep their paths."""
    pending, seen = iter(answers), []

    def fault(api: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method != "POST":
            return None
        assert request.query["dryRun"] == "All"
        seen.append(request.path)
        message = next(pending, None) if request.path.endswith(f"/{kind}") else None
        return error(status, "Forbidden", message) if message else web.json_response({}, status=201)

    api.fault = fault
    return seen


@pytest.fixture
async def fake() -> Any:
    async with serving(FakeApi()) as api:
        yield api


async def waited(api: FakeApi, patience: float = 20.0) -> tuple[str | None, list[str]]:
    reports: list[str] = []
    async with api.client() as client:
        found = await await_admission(client, SETTINGS, report=reports.append, patience=patience)
        return None if found is None else str(found), reports


async def test_nothing_is_asked_where_no_tenant_has_a_namespace(fake: FakeApi) -> None:
    fake.put(NAMESPACES, {"metadata": {"name": TENANT}})
    seen = refusing(fake, [])
    assert await waited(fake) == (None, [])
    assert seen == []


async def test_a_train_job_and_a_job_are_tried(fake: FakeApi) -> None:
    installed(fake)
    seen = refusing(fake, [])
    assert await waited(fake) == (PASSES, [])
    assert [path.rsplit("/", 1)[-1] for path in seen] == ["trainjobs", "jobs"]


@pytest.mark.slow
async def test_rejections_of_a_control_plane_that_starts_are_waited_out(fake: FakeApi) -> None:
    installed(fake)
    refusing(fake, TRANSIENT)
    found, reports = await waited(fake)
    assert found == PASSES
    assert [text for text, report in zip(TRANSIENT, reports, strict=True) if text not in report] == []


async def test_kinds_that_are_not_served_yet_are_waited_for(fake: FakeApi) -> None:
    installed(fake)
    fake.unserved = {"clustertrainingruntimes"}
    listed = []

    def fault(api: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "GET" and request.path == RUNTIMES:
            listed.append(request.path)
            if len(listed) == 2:
                api.unserved = set()
        return web.json_response({}, status=201) if request.method == "POST" else None

    fake.fault = fault
    found, reports = await waited(fake)
    assert found == PASSES
    assert len(reports) == 1


@pytest.mark.parametrize("text", [DENIED + "RST-001 spec: no deadline; set one", "forbidden: exceeded quota: tenant"])
async def test_a_rejection_by_a_rule_or_a_quota_is_an_answer(fake: FakeApi, text: str) -> None:
    installed(fake)
    refusing(fake, [text] * 100)
    rejected = f"requests of tenant {TENANT} are evaluated; a TrainJob without options is rejected: {text}"
    assert await waited(fake) == (rejected, [])


async def test_a_job_that_is_rejected_is_waited_for_too(fake: FakeApi) -> None:
    installed(fake)
    refusing(fake, TRANSIENT[:1], kind="jobs")
    found, reports = await waited(fake)
    assert (found, len(reports)) == (PASSES, 1)


async def test_the_last_rejection_is_reported_in_the_end(fake: FakeApi) -> None:
    installed(fake)
    refusing(fake, TRANSIENT[:1] * 1000)
    with pytest.raises(TrainyardError, match=f"Tenant {TENANT} cannot submit after 0.5 s: TrainJob: .*paramKind"):
        await waited(fake, patience=0.5)


@pytest.mark.slow
async def test_a_quota_that_is_counted_late_is_waited_for_longer(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(fake)
    monkeypatch.setattr(admission, "COUNTING_PATIENCE", 20.0)
    refusing(fake, TRANSIENT[-1:] * 4)
    found, reports = await waited(fake, patience=0.5)
    assert (found, len(reports)) == (PASSES, 4)
