"""Certificate authority for training pods to verify the status server: ConfigMap ``<job>-tls-config``.

The ConfigMap is created with the job. When the webhook authority is renewed, older running jobs would no longer trust
the server, so the leader updates their ConfigMaps; upstream writes them at every reconciliation.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging

from trainyard import pki
from trainyard.controller.certificates import PUBLICATION_DELAY
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_ownership import OwnershipConflictError, require_owner
from trainyard.controller.level_triggered import run_level_triggered
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.controller.status import finished
from trainyard.jobs.render.trainer_status import AUTHORITY_KEY, authority_name
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object, uid_of
from trainyard.kube.store import StoreChange

_LOG = logging.getLogger(__name__)
_MARGIN = 5 * PUBLICATION_DELAY


def authority_of(secrets: Informer) -> str | None:
    """Return the CA bundle of the serving certificate; None if it is not known_since yet."""
    for body in secrets.store:
        try:
            text = base64.b64decode((body.get("data") or {}).get(AUTHORITY_KEY) or "").decode()
        except ValueError:
            continue
        if text:
            return text
    return None


class AuthorityUpdater:
    """Update the CA bundles of running jobs that are older than the authority (leader only).

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Cluster cache.
    secrets
        Informer of the serving certificate's Secret.
    backoff
        Delays after failures.
    """

    def __init__(
        self, client: Client, cache: ClusterCache, secrets: Informer, *, backoff: Backoff | None = None
    ) -> None:
        self._client = client
        self._cache = cache
        self._secrets = secrets
        self._backoff = backoff or Backoff(0.5, 60.0)
        self._changed = asyncio.Event()
        secrets.subscribe(self._on_change)

    async def run(self) -> None:
        """Run until cancelled."""
        await asyncio.gather(self._cache.wait_settled(), self._secrets.wait_settled())
        await run_level_triggered("authority of the status server", self._step, self._changed, self._backoff)

    async def _step(self) -> bool:
        await self.step()
        return True

    async def step(self) -> int:
        """Update the ConfigMaps of running jobs; return the number of writes.

        Raises
        ------
        Exception
            If a job failed; retry. One whose API server answers is reported after the other jobs are updated.
        """
        authority = authority_of(self._secrets)
        if authority is None or not self._cache.serves_status:
            return 0
        try:
            known_since = pki.issued(authority.encode()) + _MARGIN
        except ValueError as error:
            _LOG.warning("authority of the status server: %s", error)
            return 0
        written = 0
        rejected: Exception | None = None
        for train_job in self._cache.train_jobs.store:
            try:
                if not finished(train_job) and self._started_before(train_job, known_since):
                    written += await self._update(train_job, authority)
            except (FencedError, TransportError):
                raise
            except Exception as error:
                rejected = rejected or error
        if rejected is not None:
            raise rejected
        return written

    def _started_before(self, train_job: Object, when: datetime.datetime) -> bool:
        metadata = train_job["metadata"]
        job_set = self._cache.job_sets.store.get(metadata["namespace"], metadata["name"])
        if job_set is None:
            return False
        return datetime.datetime.fromisoformat(job_set["metadata"]["creationTimestamp"].replace("Z", "+00:00")) < when

    async def _update(self, train_job: Object, authority: str) -> bool:
        namespace, name = train_job["metadata"]["namespace"], authority_name(train_job["metadata"]["name"])
        stored = await self._client.find(CONFIG_MAPS, name, namespace=namespace)
        if stored is None or (stored.get("data") or {}).get(AUTHORITY_KEY) == authority:
            return False
        try:
            require_owner(CONFIG_MAPS, stored, train_job)
        except OwnershipConflictError:
            return False
        preconditions = {"uid": uid_of(stored), "resourceVersion": stored["metadata"]["resourceVersion"]}
        patch = {"metadata": preconditions, "data": {AUTHORITY_KEY: authority}}
        try:
            await self._client.merge_patch(CONFIG_MAPS, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    def _on_change(self, change: StoreChange) -> None:
        self._changed.set()
