"""Comparison of the cluster with the one that the state describes.

The engine compares settings with the state, not with the cluster: after a cluster was rebuilt under the same context,
`up` would find nothing to change, and in another cluster it would update and delete that cluster's objects. A namespace
keeps its uid for its lifetime, so a cluster that has none of the recorded namespaces is another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.api.constants import STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.resource import Object
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.deploy.recorded_state import RecordedState

_NAMESPACE_TYPE = "kubernetes:core/v1:Namespace"
_PROVIDER_TYPE = "pulumi:providers:kubernetes"
_SELECT = "correct trainyard:cluster or KUBECONFIG so that they select the cluster of the stack"
_AFTER_REBUILD = (
    "if it was rebuilt, run `trainyard refresh --stack {stack}`, which drops what no longer exists from the state, "
    "then `trainyard up --stack {stack}`"
)
_WITHOUT_PROGRAM = ("destroy", "refresh")
"""Operations for which the engine uses the provider as it is in the state, not as the settings declare it."""


def reject_other_kubeconfig(
    state: RecordedState, access: ClusterAccess, operation: str, *, killed: bool = False
) -> None:
    """Reject an operation that would use another kubeconfig or context than the settings select.

    Parameters
    ----------
    state, access, operation
        As for `reject_other_cluster`.
    killed
        Whether a killed run precedes it: then `up` reads the objects again first, with the recorded kubeconfig.

    Raises
    ------
    TrainyardError
        Names both.
    """
    selected = _described_access(str(access.kubeconfig), access.context)
    reads_first = killed and operation == "up"
    for each in state.resources if operation in _WITHOUT_PROGRAM or reads_first else ():
        inputs = each.get("inputs") or {}
        if each.get("type") != _PROVIDER_TYPE or "kubeconfig" not in inputs:
            continue
        recorded = _described_access(inputs["kubeconfig"], inputs.get("context"))
        if recorded == selected:
            continue
        if killed:
            raise TrainyardError(
                f"A run of stack {state.stack} was killed, and its objects are read again with the kubeconfig of the "
                f"last `up`: {recorded}; the settings select {selected}",
                fix="if another run of the stack is in progress, wait until it has ended; otherwise continue on the "
                f"machine of that run, or copy the kubeconfig to {inputs['kubeconfig']}; then "
                "select the recorded kubeconfig and context with trainyard:cluster or KUBECONFIG",
            )
        raise TrainyardError(
            f"{operation} uses the kubeconfig of the last `up` of stack {state.stack}: {recorded}; "
            f"the settings select {selected}",
            fix=f"run `trainyard up --stack {state.stack}`, which records the selected one, or select the recorded "
            "one with trainyard:cluster or KUBECONFIG",
        )


def reject_other_cluster(state: RecordedState, access: ClusterAccess, operation: str) -> None:
    """Reject an operation on a cluster other than the one that the state describes.

    Parameters
    ----------
    state
        The recorded state; without namespaces it describes no cluster.
    access
        The cluster of the stack.
    operation
        up, preview, destroy or refresh.

    Raises
    ------
    TrainyardError
        Names each namespace of the state and what the cluster has instead, or the namespaces cannot be listed.
    """
    recorded = _recorded_namespaces(state.resources)
    if not recorded:
        return

    async def read() -> Sequence[Object]:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return (await client.page(NAMESPACES, limit=0, metadata_only=True)).items

    try:
        live = asyncio.run(read())
    except ApiError as error:
        raise TrainyardError(
            f"The namespaces cannot be listed, by which the cluster of a state is recognized: {error}",
            fix="use credentials with permission to list the platform's kinds",
        ) from error
    except TransportError as error:
        raise TrainyardError(
            f"The API server is unreachable: {error}",
            fix="start the cluster (`trainyard cluster up`) or correct the kubeconfig",
        ) from error
    check_cluster(state.stack, recorded, live, operation, access.context)


def check_cluster(
    stack: str, recorded: Mapping[str, str], live: Sequence[Object], operation: str, context: str | None
) -> None:
    """Compare the namespaces of a state with those of a cluster.

    A refresh is how a state follows a rebuilt cluster, so it is rejected only where it would record namespaces of
    another owner, which `destroy` would delete afterwards.

    Parameters
    ----------
    stack
        Name of the stack.
    recorded
        uid of each namespace in the state, by name.
    live
        The namespaces of the cluster.
    operation
        up, preview, destroy or refresh.
    context
        Context of the kubeconfig, for the message.

    Raises
    ------
    TrainyardError
        The cluster has none of them.
    """
    found = {body["metadata"]["name"]: body["metadata"] for body in live}
    if not recorded or any(found.get(name, {}).get("uid") == uid for name, uid in recorded.items()):
        return
    owners = {
        name: (found[name].get("labels") or {}).get(STACK_LABEL) for name in sorted(recorded.keys() & found.keys())
    }
    foreign = [name for name, owner in owners.items() if owner != stack]
    if operation == "refresh" and not foreign:
        return
    findings = [
        Finding(f"Namespace/{name}", f"the state has uid {recorded[name]}, the cluster {_described(found.get(name))}")
        for name in sorted(recorded)
    ]
    fix = _SELECT
    if not foreign:
        fix += f"; {_AFTER_REBUILD.format(stack=stack)}"
    elif not any(owners[name] for name in foreign):
        fix += (
            f"; if it was rebuilt, and another tool created namespaces {', '.join(foreign)}, delete them, or give them "
            f"to the stack, whose `destroy` then deletes them: kubectl label namespace {' '.join(foreign)} "
            f"{STACK_LABEL}={stack}; then run `trainyard refresh --stack {stack}` and `trainyard up --stack {stack}`"
        )
    selected = f"context {context}" if context else "the current context"
    raise TrainyardError(
        f"The state of stack {stack} describes another cluster than {selected}, which has none of the "
        f"{len(recorded)} namespaces of the state; nothing was changed",
        findings=findings,
        fix=fix,
    )


def _recorded_namespaces(resources: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the uid of each namespace of the state; what is being deleted is no evidence."""
    metadata = (
        (each.get("outputs") or {}).get("metadata") or {}
        for each in resources
        if each.get("type") == _NAMESPACE_TYPE and not each.get("delete")
    )
    return {each["name"]: each["uid"] for each in metadata if each.get("uid")}


def _described_access(kubeconfig: str, context: str | None) -> str:
    return f"{kubeconfig}, " + (f"context {context}" if context else "its current context")


def _described(metadata: Mapping[str, Any] | None) -> str:
    if metadata is None:
        return "has none"
    owner = (metadata.get("labels") or {}).get(STACK_LABEL)
    return f"uid {metadata.get('uid')}" + (f" of stack {owner}" if owner else " of another owner")
