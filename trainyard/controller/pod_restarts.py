"""Rolling update of a Deployment whose pods read their certificate only when they start."""

from __future__ import annotations

import logging

from trainyard.controller.certificates import restart_patch
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import DEPLOYMENTS
from trainyard.kube.resource import uid_of

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 3


async def restart_pods(client: Client, name: str, namespace: str, certificate: bytes, *, field_manager: str) -> None:
    """Replace the pods of a Deployment once for a certificate; without the Deployment there is nothing to do.

    The patch carries the resourceVersion that was read, so that a delayed patch of a former leader does not replace the
    pods of a later certificate. A Deployment whose status changes meanwhile is read again.

    Raises
    ------
    ApiError, TransportError
        If it was not patched; retry.
    """
    for attempt in range(_ATTEMPTS):
        stored = await client.find_confirmed(DEPLOYMENTS, name, namespace=namespace, metadata_only=True)
        if stored is None:
            return
        try:
            await client.merge_patch(
                DEPLOYMENTS,
                name,
                restart_patch(certificate),
                namespace=namespace,
                uid=uid_of(stored),
                resource_version=stored["metadata"]["resourceVersion"],
                field_manager=field_manager,
            )
        except ApiError as error:
            if error.not_found:
                return
            if not error.conflict or attempt == _ATTEMPTS - 1:
                raise
        else:
            _LOG.info("Deployment %s/%s: pods are replaced for a new certificate", namespace, name)
            return
