"""Wait until tenants can submit: a control plane that answers may still reject them.

Policies, webhooks and their controllers start after the API server. So requests of tenants are sent as dry runs, in the
namespace of one tenant; policies depend on the namespace, not on the user.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.cluster_state.quotas import COUNTING_PATIENCE
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import JOBS, NAMESPACES
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.progress import Progress
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import TenantSettings

_PLAIN_RUNTIME = "torch-distributed"
"""Preferred if the tenant may use it, because it has no required fields."""
_PATIENCE = 120.0
_PAUSE = 0.25
_FIX = "see `trainyard cluster status`; run `trainyard up` if a part of the platform is missing"
_NAME = "admission-probe"
_EVALUATED = re.compile(r"denied( the)? request: (?!POL-)[A-Z]{3}-[0-9]{3} (?!parameters:)|exceeded quota")
"""Rejections that repeat on a control plane that has started: by a rule with its parameters, or by an exhausted quota.

A quota is evaluated last. A rule may reject a request before validating webhooks receive it.
"""
_UNCOUNTED = re.compile(r"status unknown for quota")


@dataclass(frozen=True)
class AdmissionProbe:
    """A control plane that evaluates the requests of a tenant.

    Parameters
    ----------
    tenant
        The tenant.
    rejection
        Why a request without options is rejected, by a rule or an exhausted quota; None: it passes.
    """

    tenant: str
    rejection: str | None = None

    def __str__(self) -> str:
        if self.rejection is None:
            return f"tenant {self.tenant} can submit"
        return f"requests of tenant {self.tenant} are evaluated; a {self.rejection}"


def wait_for_tenants(access: ClusterAccess, settings: StackSettings, progress: Progress) -> None:
    """Wait until a tenant's requests are admitted; return at once if the stack is not installed.

    Raises
    ------
    TrainyardError
        They are still rejected after the timeout; contains the last rejection.
    """

    async def wait() -> None:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            try:
                installed = await tenant_namespace(client, settings) is not None
            except (ApiError, TransportError) as error:
                raise TrainyardError(f"The cluster does not answer: {error}", fix=_FIX) from error
            if not installed:
                return
            with progress.step("Admission") as step:
                admission = await await_admission(client, settings, report=step.update)
                step.done(str(admission))

    asyncio.run(wait())


async def tenant_namespace(client: Client, settings: StackSettings) -> str | None:
    """Return the first tenant of a stack with an existing namespace; None if there is none."""
    for tenant in sorted(settings.active_tenants):
        home = await client.find(NAMESPACES, tenant)
        if home is not None and TENANT_LABEL in (home["metadata"].get("labels") or {}):
            return tenant
    return None


async def await_admission(
    client: Client, settings: StackSettings, *, report: Callable[[str], None], patience: float = _PATIENCE
) -> AdmissionProbe | None:
    """Wait until a TrainJob and a Job of a tenant are admitted, or rejected by a rule or an exhausted quota.

    Parameters
    ----------
    settings
        The stack's settings.
    report
        Receives the last rejection.
    patience
        Seconds to wait; longer while a quota is counted for the first time.

    Returns
    -------
    Admission | None
        The result; None if no tenant of the stack has a namespace.

    Raises
    ------
    TrainyardError
        The requests are still rejected for another reason.
    """
    tenant = await tenant_namespace(client, settings)
    if tenant is None:
        return None
    last = "no answer"
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(patience) as limit:
            while True:
                try:
                    return AdmissionProbe(tenant, await _evaluate(client, tenant, settings.active_tenants[tenant]))
                except (ApiError, TransportError, TrainyardError) as error:
                    last = str(error)
                if _UNCOUNTED.search(last):
                    patience = max(patience, COUNTING_PATIENCE)
                    limit.reschedule(started + patience)
                report(f"waiting until tenant {tenant} can submit: {last}")
                await asyncio.sleep(_PAUSE)
    except TimeoutError as error:
        raise TrainyardError(
            f"Tenant {tenant} cannot submit after {patience:g} s: {last}",
            fix=_FIX,
        ) from error


async def _evaluate(client: Client, tenant: str, settings: TenantSettings) -> str | None:
    """Send the requests; return the first rejection by a rule or an exhausted quota, or None.

    Raises
    ------
    ApiError, TransportError, TrainyardError
        The control plane does not evaluate them yet.
    """
    rejection: str | None = None
    runtimes = await client.list(CLUSTER_TRAINING_RUNTIMES)
    for resource, body in _requests(tenant, settings, runtimes):
        try:
            path = resource.path(namespace=tenant)
            await client.request("POST", path, resource=resource, body=body, query={"dryRun": "All"})
        except ApiError as error:
            if error.status == 409:
                continue
            if not _EVALUATED.search(error.message):
                raise TrainyardError(f"{resource.kind}: {error.message}") from error
            rejection = rejection or f"{resource.kind} without options is rejected: {error.message}"
    return rejection


def _requests(
    tenant: str, settings: TenantSettings, runtimes: list[Object]
) -> Iterator[tuple[Resource, dict[str, Any]]]:
    """Yield requests that the tenant is allowed to send, with a runtime of the cluster."""
    allowed = [each for each in runtimes if {"*", each["metadata"]["name"]} & set(settings.runtimes)]
    if not allowed:
        return
    runtime = min(allowed, key=lambda each: (each["metadata"]["name"] != _PLAIN_RUNTIME, each["metadata"]["name"]))
    metadata = {"name": _NAME, "namespace": tenant}
    reference = {"runtimeRef": {"name": runtime["metadata"]["name"]}, "activeDeadlineSeconds": 60}
    yield (
        TRAIN_JOBS,
        {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "metadata": metadata, "spec": reference},
    )
    job = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container = {
        "name": "probe",
        "image": job["containers"][0].get("image", "probe:0"),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": next(iter(settings.service_accounts), "default"),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    spec = {"backoffLimit": 0, "activeDeadlineSeconds": 60, "template": {"spec": pod}}
    yield JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
