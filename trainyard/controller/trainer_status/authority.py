"""Certificate authority for training pods to verify the status server: ConfigMap ``<job>-tls-config``.

The ConfigMap is made with the job. When the webhook authority is renewed, jobs that run since before would no longer
trust the server, so the leader brings their ConfigMaps up to date; upstream writes them at every reconciliation.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging

from trainyard import pki
from trainyard.controller.certificates import SETTLING
from trainyard.controller.cluster_cache import ClusterView
from trainyard.controller.ownership import OccupiedError, require_owner
from trainyard.controller.resources import CONFIG_MAPS, FIELD_MANAGER
from trainyard.controller.status import finished
from trainyard.kube import ApiError, Backoff, Change, Client, Informer, Object, TransportError, uid_of
from trainyard.render.trainer_status import AUTHORITY_KEY, authority_name

__all__ = ["AuthorityUpdater", "authority_of"]

_LOG = logging.getLogger(__name__)
_MARGIN = 5 * SETTLING


def authority_of(secrets: Informer) -> str | None:
    """Return the certificates that the serving certificate is checked against, None where they are not known yet."""
    for body in secrets.store:
        try:
            text = base64.b64decode((body.get("data") or {}).get(AUTHORITY_KEY) or "").decode()
        except ValueError:
            continue
        if text:
            return text
    return None


class AuthorityUpdater:
    """The leader's part: jobs that are older than the authority get to know it.

    Parameters
    ----------
    client
        Fenced API client.
    view
        The informers.
    secrets
        Informer of the serving certificate's Secret.
    backoff
        Waiting after failures.
    """

    def __init__(self, client: Client, view: ClusterView, secrets: Informer, *, backoff: Backoff | None = None) -> None:
        self._client = client
        self._view = view
        self._secrets = secrets
        self._backoff = backoff or Backoff(0.5, 60.0)
        self._changed = asyncio.Event()
        secrets.subscribe(self._on_change)

    async def run(self) -> None:
        """Work until cancelled."""
        await asyncio.gather(self._view.wait_settled(), self._secrets.wait_settled())
        while True:
            self._changed.clear()
            try:
                await self.step()
                self._backoff.reset()
            except (ApiError, TransportError) as error:
                wait = self._backoff.next()
                _LOG.warning("authority of the status server: %s; again in %.1f s", error, wait)
                await asyncio.sleep(wait)
                continue
            await self._changed.wait()

    async def step(self) -> int:
        """Bring the ConfigMaps of running jobs up to date; return how many were written.

        Raises
        ------
        ApiError, TransportError
            If the API server refused or did not answer; call again.
        """
        authority = authority_of(self._secrets)
        if authority is None or not self._view.serves_status:
            return 0
        try:
            known = pki.issued(authority.encode()) + _MARGIN
        except ValueError as error:
            _LOG.warning("authority of the status server: %s", error)
            return 0
        written = 0
        for train_job in self._view.train_jobs.store:
            if not finished(train_job) and self._started_before(train_job, known):
                written += await self._update(train_job, authority)
        return written

    def _started_before(self, train_job: Object, when: datetime.datetime) -> bool:
        metadata = train_job["metadata"]
        job_set = self._view.job_sets.store.get(metadata["namespace"], metadata["name"])
        if job_set is None:
            return False
        return datetime.datetime.fromisoformat(job_set["metadata"]["creationTimestamp"].replace("Z", "+00:00")) < when

    async def _update(self, train_job: Object, authority: str) -> bool:
        namespace, name = train_job["metadata"]["namespace"], authority_name(train_job["metadata"]["name"])
        held = await self._client.find(CONFIG_MAPS, name, namespace=namespace)
        if held is None or (held.get("data") or {}).get(AUTHORITY_KEY) == authority:
            return False
        try:
            require_owner(CONFIG_MAPS, held, train_job)
        except OccupiedError:
            return False
        preconditions = {"uid": uid_of(held), "resourceVersion": held["metadata"]["resourceVersion"]}
        patch = {"metadata": preconditions, "data": {AUTHORITY_KEY: authority}}
        try:
            await self._client.merge_patch(CONFIG_MAPS, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    def _on_change(self, change: Change) -> None:
        self._changed.set()
