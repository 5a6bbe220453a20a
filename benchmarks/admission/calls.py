"""A tenant's connection to a plane, and what the plane says."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.admission.scene import resource_of
from benchmarks.admission.servers import Plane

RULE = re.compile(r"\b[A-Z]{3}-[0-9]{3}\b")


@dataclass(frozen=True)
class Said:
    """What a plane said about an object.

    Parameters
    ----------
    allowed
        Whether it would be created.
    denials, warnings
        The rules that were named.
    message
        Why it is refused.
    """

    allowed: bool
    denials: frozenset[str]
    warnings: frozenset[str]
    message: str


class Caller:
    """A tenant's connection to a plane; one request at a time."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        context = ssl.create_default_context(cafile=str(plane.folder.pki / "ca.crt"))
        context.load_cert_chain(plane.tenant_certificate())
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, timeout=60, context=context)

    def rest(self) -> None:
        """Give the connection back: the API server closes one that is idle for long. The next request makes another."""
        self._connection.close()

    def send(self, method: str, path: str, content: bytes) -> tuple[float, http.client.HTTPResponse, bytes]:
        """Make a request; return the seconds to the last byte of the answer, the answer, and its content."""
        started = time.perf_counter()
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        return time.perf_counter() - started, response, answer

    def create(self, body: Mapping[str, Any], namespace: str, *, dry_run: bool) -> float:
        """Create an object that must be allowed; return the seconds it took. What really exists is removed again."""
        content, path = json.dumps(body).encode(), _path(body, namespace)
        seconds, response, answer = self.send("POST", f"{path}?dryRun=All" if dry_run else path, content)
        if response.status != 201:
            raise SystemExit(f"{self.plane.name} refused what it must allow: {answer.decode()}")
        if not dry_run:
            path = f"{path}/{body['metadata']['name']}"
            _, response, answer = self.send("DELETE", f"{path}?gracePeriodSeconds=0", b"")
            if response.status != 200:
                raise SystemExit(f"{self.plane.name} did not delete: {answer.decode()}")
        return seconds

    def ask(self, body: Mapping[str, Any], namespace: str) -> Said:
        """Return what is said about the creation of an object."""
        named = {**body, "metadata": {**body["metadata"], "name": body["metadata"].get("name") or "case"}}
        content = json.dumps(named).encode()
        _, response, answer = self.send("POST", f"{_path(body, namespace)}?dryRun=All", content)
        allowed = response.status == 201
        message = "" if allowed else json.loads(answer).get("message", "")
        warnings = " ".join(response.headers.get_all("Warning") or ())
        return Said(allowed, frozenset(RULE.findall(message)), frozenset(RULE.findall(warnings)), message)


def _path(body: Mapping[str, Any], namespace: str) -> str:
    return resource_of({**body, "metadata": {"namespace": namespace}}).path(namespace=namespace)
