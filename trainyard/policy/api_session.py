"""HTTP session with an API server, with warnings and explained errors."""

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

__all__ = ["Answer", "Session", "awaited"]

_FORMS = {"apply-patch": "yaml"}
"""How the API server names the form of a patch where that is not JSON; what is JSON is YAML too."""
_SECONDS: Any = 60.0
"""For one request: webhooks have their own, shorter limits, and one that does not answer is to be seen."""
_WARNING = re.compile(r'^299 \S+ "(.*)"$')


@dataclass(frozen=True)
class Answer:
    """What the API server answered."""

    status: int
    body: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the request was accepted."""
        return self.status < 300

    @property
    def message(self) -> str:
        """The explanation of an error."""
        return str(self.body.get("message", ""))


class Session:
    """A connection to one API server.

    Parameters
    ----------
    kubeconfig
        File to read server and credentials from.
    context
        Context in the file; its current one when absent.

    Raises
    ------
    TrainyardError
        The file cannot be used, or the server does not answer.
    """

    def __init__(self, kubeconfig: Path, context: str | None = None) -> None:
        try:
            config = KubeConfig.from_file(kubeconfig).get(context)
            if config is None:
                raise ConfigError("it names no current context")
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
    ) -> Answer:
        """Make one request; ``patch`` is the kind of a PATCH."""
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
        return Answer(
            response.status_code, document, tuple(match[1].replace('\\"', '"') for match in warnings if match)
        )

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object that must be accepted."""
        answer = self.request("POST", path, body)
        if not answer.ok:
            raise TrainyardError(
                f"{body['kind']} {body['metadata']['name']} was refused: {answer.message}",
                fix="run the cases on a cluster where nothing else is installed",
            )


def awaited(what: str, probe: Callable[[], bool], *, timeout: float = 30.0, interval: float = 0.05) -> None:
    """Return once the probe is true.

    Raises
    ------
    TrainyardError
        It was not in time.
    """
    deadline = time.monotonic() + timeout
    while not probe():
        if time.monotonic() > deadline:
            raise TrainyardError(f"{what} did not happen within {timeout:g} s", fix="look at the API server's log")
        time.sleep(interval)
