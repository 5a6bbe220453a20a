"""HTTP session with an API server: collects warnings and explains connection errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from lightkube import KubeConfig
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.core.exceptions import ConfigError

from trainyard.errors import TrainyardError

__all__ = ["ApiResponse", "Session", "wait_for"]

_FORMS = {"apply-patch": "yaml"}
"""Content-type suffix of patches that are not JSON; JSON is valid YAML too."""
_SECONDS: Any = 60.0
"""Timeout of one request; longer than the timeout of any webhook, so that webhook timeouts are reported as such."""
_WARNING = re.compile(r'^299 \S+ "(.*)"$')


@dataclass(frozen=True)
class ApiResponse:
    """Response of the API server."""

    status: int
    body: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the request was accepted."""
        return self.status < 300

    @property
    def message(self) -> str:
        """Error message."""
        return str(self.body.get("message", ""))


class Session:
    """Session with one API server.

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
            config = KubeConfig.from_file(kubeconfig).get(context)
            if config is None:
                raise ConfigError("it has no current context")
            self._client = Client(config, ConnectionParams(timeout=_SECONDS, trust_env=False))
            self._client.get("/version").raise_for_status()
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise TrainyardError(
                f"No control plane answers through {kubeconfig}: {reason}", fix="start one with: trainyard cluster up"
            ) from error

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        dry_run: bool = False,
        headers: Sequence[tuple[str, str]] = (),
        patch: str = "merge-patch",
    ) -> ApiResponse:
        """Send a request; ``patch`` is the patch type of a PATCH."""
        content_type = f"application/{patch}+{_FORMS.get(patch, 'json')}" if method == "PATCH" else "application/json"
        response = self._client.request(
            method,
            path,
            json=dict(body) if isinstance(body, Mapping) else body,
            params={"dryRun": "All"} if dry_run else None,
            headers=[("Content-Type", content_type), *headers],
        )
        try:
            document = response.json()
        except ValueError:
            document = {"message": response.text}
        warnings = (_WARNING.match(value) for value in response.headers.get_list("warning"))
        return ApiResponse(
            response.status_code, document, tuple(match[1].replace('\\"', '"') for match in warnings if match)
        )

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object, or fail."""
        answer = self.request("POST", path, body)
        if not answer.ok:
            raise TrainyardError(
                f"{body['kind']} {body['metadata']['name']} was rejected: {answer.message}",
                fix="run the cases on a cluster where nothing else is installed",
            )


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
