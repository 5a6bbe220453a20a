"""Bound ServiceAccount token of a host process: requested, written to a file, renewed before it expires."""

from __future__ import annotations

import datetime
from pathlib import Path

from trainyard.kube.client import Client
from trainyard.kube.kinds import SERVICE_ACCOUNTS
from trainyard.local.cluster.folders import write_private
from trainyard.local.cluster.kubeconfig import token_kubeconfig

_LIFETIME = datetime.timedelta(hours=1)


class ServiceAccountIdentity:
    """Kubeconfig and token of one host process.

    Parameters
    ----------
    folder
        Folder of the process, for the kubeconfig and the token.
    cluster
        Name of the context.
    server
        URL of the API server.
    authority
        CA certificate of the API server, PEM.
    """

    def __init__(self, folder: Path, cluster: str, server: str, authority: bytes) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._token = folder / "token"
        self._cluster, self._server, self._authority = cluster, server, authority
        self._subject: tuple[str, str, str] | None = None
        self._renew_at: datetime.datetime | None = None

    async def ensure(self, client: Client, namespace: str, account: str, now: datetime.datetime) -> bool:
        """Ensure a valid token of a ServiceAccount on disk; return False while the ServiceAccount does not exist.

        The token is renewed after four fifths of its lifetime, and at once if the ServiceAccount was recreated.
        """
        found = await client.find(SERVICE_ACCOUNTS, account, namespace=namespace)
        if found is None:
            return False
        subject = (namespace, account, found["metadata"]["uid"])
        if subject == self._subject and self._renew_at is not None and now < self._renew_at:
            return True
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(_LIFETIME.total_seconds())},
        }
        answer = await client.create_subresource(SERVICE_ACCOUNTS, account, "token", request, namespace=namespace)
        write_private(self._token, answer["status"]["token"])
        kubeconfig = token_kubeconfig(
            self._cluster, self._server, self._authority, f"{namespace}-{account}", self._token
        )
        if not self.kubeconfig.is_file() or self.kubeconfig.read_text() != kubeconfig:
            write_private(self.kubeconfig, kubeconfig)
        expires = datetime.datetime.fromisoformat(answer["status"]["expirationTimestamp"])
        self._subject, self._renew_at = subject, now + (expires - now) * 4 / 5
        return True
