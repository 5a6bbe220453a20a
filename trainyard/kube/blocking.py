"""Blocking session with an API server, for code in threads.

It runs the asynchronous client on an event loop in a thread of its own: one implementation of credentials, TLS, retries
and errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import CredentialsError
from trainyard.kube.client import Client
from trainyard.kube.response import Response
from trainyard.kube.transport import JSON, Headers

_FORMS = {"apply-patch": "yaml"}
"""Content-type suffix of patches that are not JSON; JSON is valid YAML too."""
_SECONDS = 60.0
"""Timeout of one request; longer than the timeout of any webhook, so that webhook timeouts are reported as such."""
_ALIVE_SECONDS = 1.0
T = TypeVar("T")


class BlockingSession:
    """Session with one API server; threads may share it.

    Parameters
    ----------
    kubeconfig
        File with server and credentials.
    context
        Context in the file; the current one if unset.

    Raises
    ------
    TrainyardError
        The file is invalid, or the server does not respond.
    """

    def __init__(self, kubeconfig: Path, context: str | None = None) -> None:
        try:
            self._client = Client.from_kubeconfig(kubeconfig, context, timeout=_SECONDS)
            self._start()
            try:
                self.run(lambda client: client.request("GET", "/version"))
            except BaseException:
                self.close()
                raise
        except (TrainyardError, CredentialsError):
            raise
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise TrainyardError(
                f"No control plane answers through {kubeconfig}: {reason}", fix="start one with: trainyard cluster up"
            ) from error

    def __enter__(self) -> BlockingSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closed.set)
            self._thread.join()

    def run(self, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a call of the asynchronous client, such as ``lambda client: client.list(PODS)``.

        Raises
        ------
        TrainyardError
            The session is closed, also by another thread during the call, or belongs to the parent process.
        """
        if not self._thread.is_alive():
            raise _closed_error()
        coroutine = self._call(call)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # Another thread has closed the session meanwhile.
            coroutine.close()
            raise _closed_error() from None
        while True:
            try:
                return future.result(timeout=_ALIVE_SECONDS)
            except TimeoutError:
                if future.done():
                    raise
                if not self._thread.is_alive():
                    coroutine.close()
                    raise _closed_error() from None
            except CancelledError:
                raise _closed_error() from None

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        dry_run: bool = False,
        headers: Headers = (),
        patch: str = "merge-patch",
    ) -> Response:
        """Send a request; ``patch`` is the patch type of a PATCH."""
        content_type = f"application/{patch}+{_FORMS.get(patch, 'json')}" if method == "PATCH" else JSON
        query = {"dryRun": "All"} if dry_run else None
        return self.run(
            lambda client: client.exchange(
                method, path, body=body, query=query, content_type=content_type, headers=headers
            )
        )

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object; raises `ApiError` if the API server rejects it."""
        response = self.request("POST", path, body)
        if not response.ok:
            raise response.error

    def _start(self) -> None:
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._closed = asyncio.Event()
        self._thread = Thread(target=asyncio.run, args=[self._serve(started)], name="trainyard-session", daemon=True)
        self._thread.start()
        self._loop = started.result()

    async def _serve(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        async with self._client:
            started.set_result(asyncio.get_running_loop())
            await self._closed.wait()
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def _call(self, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        if self._closed.is_set():
            raise _closed_error()
        return await call(self._client)


def _closed_error() -> TrainyardError:
    return TrainyardError("the session with the API server is closed", fix="open another one")


def wait_for(what: str, probe: Callable[[], bool], *, timeout: float = 30.0, interval: float = 0.05) -> None:
    """Wait until the probe returns true.

    Raises
    ------
    TrainyardError
        The timeout expired.
    """
    deadline = time.monotonic() + timeout
    while not probe():
        if time.monotonic() > deadline:
            raise TrainyardError(f"{what} did not happen within {timeout:g} s", fix="look at the API server's log")
        time.sleep(interval)
