"""Attacks on the rules of a live platform: who makes them, on what, and how the API server answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.bypass_objects import KINDS, OF_PODS, TENANT, Body, good
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.response import Response

GROUPS: Final = {role: (f"{TENANT}-{role}",) for role in ("submit", "author", "raw")} | {"careless": ("careless",)}
ATTEMPTS: Final = Path(__file__).with_name("bypass_attempts.yaml")


def stack_settings(config: dict[str, Any]) -> None:
    """Add the tenant, and what the attempts need beside it, to a stack's configuration."""
    config["trainyard:queues"][TENANT] = {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "16"}}
    config["trainyard:priorityClasses"]["red-urgent"] = {"value": 5000, "preempts": True}
    config["trainyard:tenants"][TENANT] = {
        "queues": [TENANT],
        "runtimes": ["torch-distributed", "torch-distributed-gang"],
        "priorityClasses": ["training", "red-urgent"],
        "serviceAccounts": ["default", "trainer"],
        "maxAcceleratorsPerJob": 16,
        "podSecurity": "privileged",
        "roles": {role: list(GROUPS[role]) for role in ("submit", "author", "raw")},
    }
    config["trainyard:fabric"]["acceleratorResources"] = ["example.com/npu"]
    exemption = {"rule": "ESC-001", "namespace": TENANT, "kind": "Pod", "name": "exempt", "expires": "2199-01-01"}
    config.setdefault("trainyard:policies", {}).update(
        reports=True,
        parameters={
            "ACC-005": {"deviceClasses": ["gpu.example.com"]},
            "VOL-001": {"storageClasses": ["fast", "standard"], "volumes": ["{namespace}-*"]},
        },
        exemptions=[
            {**exemption, "owner": "ann@example.com", "reason": "a test of exemptions", "expires": "2199-01-01"}
        ],
    )


@dataclass(frozen=True)
class Attempt:
    """One attack.

    Parameters
    ----------
    about
        What it is after.
    number
        Its place in the list.
    content
        As the list has it.
    """

    about: str
    number: int
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What is tried, and by whom, for people."""
        return f"{self.about}: {self.content['attack']} ({self.who})"

    @property
    def who(self) -> str:
        return str(self.content.get("as", "submit"))

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the answer must name: one of these; nothing where the request is to succeed."""
        return tuple(str(self.content["refused"]).split("|")) if "refused" in self.content else ()

    def refused(self, answer: Response) -> bool:
        """Whether an answer is the refusal that is expected, and says why."""
        if answer.status not in (400, 403, 422):
            return False
        for wanted in self.refusals:
            if wanted == "RBAC" and answer.status == 403 and " cannot " in answer.message:
                return True
            if wanted == "Kubernetes" and answer.status == 422:
                return True
            if wanted not in ("RBAC", "Kubernetes") and wanted in answer.message:
                return True
        return False


_COUNTED = 5
"""How often a request is made whose ResourceQuota changes at the same time."""


class Cluster:
    """The platform under attack.

    Parameters
    ----------
    session
        Connection with the rights of an administrator, who can impersonate any user.
    """

    def __init__(self, session: BlockingSession) -> None:
        self.session = session

    def send(self, who: str, method: str, path: str, body: Any = None, *, patch: str = "merge-patch") -> Response:
        """Make a request as a user, again where the API server could not count it because of another request."""
        groups = (*GROUPS[who], "system:authenticated")
        headers = [("Impersonate-User", f"{who}@example.com"), *(("Impersonate-Group", group) for group in groups)]
        for _ in range(_COUNTED):
            answer = self.session.request(method, path, body, headers=headers, patch=patch)
            if answer.status != 409 or "on resourcequotas" not in answer.message:
                break
        return answer

    def object(self, kind: str, name: str, namespace: str = TENANT) -> Body | None:
        """Return an object as it is stored, None where there is none."""
        answer = self.session.request("GET", KINDS[kind].path(namespace, name))
        return dict(answer.body) if answer.ok else None

    def create(self, who: str, name: str, called: str, **changes: Any) -> Response:
        """Create a good object as a user."""
        kind, body = good(name, called, **changes)
        return self.send(who, "POST", KINDS[kind].path(body["metadata"].get("namespace", "")), body)

    def delete(self, kind: str, name: str, namespace: str = TENANT) -> None:
        """Delete an object at once, as an administrator."""
        path = KINDS[kind].path(namespace, name)
        self.session.request("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")

    def try_it(self, attempt: Attempt) -> tuple[Response, bool]:
        """Make an attempt; return the answer, and whether everything is as it was."""
        content, who = attempt.content, attempt.who
        if "change" in content:
            kind, name = content["change"].split()
            before = _reviewed(self.object(kind, name))
            assert before is not None, f"{kind} {name} is not there to be attacked"
            answer = self._changed(attempt, kind, name)
            return answer, _reviewed(self.object(kind, name)) == before
        if "make" in content:
            kind, body = _wanted(attempt)
            namespace = body["metadata"].get("namespace", "")
            path, before = KINDS[kind].path(namespace), self.names(kind, namespace)
            answer = self._made(attempt, path, body)
            return answer, self.names(kind, namespace) == before
        root = f"/api/v1/namespaces/{TENANT}"
        if "post" in content:
            return self.send(who, "POST", f"{root}/{content['post']}", content.get("body")), True
        kind = content["every"]
        before = self.names(kind, TENANT)
        answer = self.send(who, "DELETE", KINDS[kind].path(TENANT), content.get("body"))
        return answer, self.names(kind, TENANT) == before

    def make(self, attempt: Attempt) -> tuple[str, str, Response]:
        """Create what an attempt creates; return kind and name with the answer."""
        kind, body = _wanted(attempt)
        answer = self._made(attempt, KINDS[kind].path(body["metadata"].get("namespace", "")), body)
        return kind, body["metadata"]["name"], answer

    def _made(self, attempt: Attempt, path: str, body: Body) -> Response:
        content, who = attempt.content, attempt.who
        query = "?dryRun=All" if content.get("dry") else ""
        if content.get("how") == "apply":
            path = f"{path}/{body['metadata']['name']}?fieldManager={content['manager']}&force=true"
            return self.send(who, "PATCH", path, body, patch="apply-patch")
        return self.send(who, "POST", path + query, body)

    def _changed(self, attempt: Attempt, kind: str, name: str) -> Response:
        content, who = attempt.content, attempt.who
        path = KINDS[kind].path(TENANT, name)
        path += f"/{content['subresource']}" if "subresource" in content else ""
        path += "?dryRun=All" if content.get("dry") else ""
        if content.get("delete"):
            return self.send(who, "DELETE", path, content.get("body"))
        if content.get("how") == "json":
            return self.send(who, "PATCH", path, content["json"], patch="json-patch")
        body = {key: content[key] for key in ("metadata", "spec") if key in content} | content.get("fields", {})
        if content.get("how") == "apply":
            body |= {"apiVersion": KINDS[kind].api, "kind": kind}
            body["metadata"] = {**body.get("metadata", {}), "name": name, "namespace": TENANT}
            path += f"?fieldManager={content['manager']}&force=true"
            return self.send(who, "PATCH", path, body, patch="apply-patch")
        patch = "strategic-merge-patch" if content.get("subresource") == "ephemeralcontainers" else "merge-patch"
        return self.send(who, "PATCH", path, body, patch=patch)

    def names(self, kind: str, namespace: str = TENANT) -> set[str]:
        """Return the names of all objects of a kind."""
        answer = self.session.request("GET", KINDS[kind].path(namespace))
        return {item["metadata"]["name"] for item in answer.body["items"]}


_CHANGES: Final = (*OF_PODS, "metadata", "spec", "fields", "by", "replicas")


def load_attempts() -> list[Attempt]:
    """Return the list."""
    groups = yaml.load(ATTEMPTS.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    pairs = [(group["about"], each) for group in groups for each in group["attempts"]]
    return [Attempt(about, number, content) for number, (about, content) in enumerate(pairs)]


def _wanted(attempt: Attempt) -> tuple[str, Body]:
    changes = {key: attempt.content[key] for key in _CHANGES if key in attempt.content}
    return good(attempt.content["make"], f"attempt-{attempt.number}", **changes)


def _reviewed(body: Body | None) -> Body | None:
    """Return what an attempt must not have changed: all that no other process writes meanwhile."""
    if body is None:
        return None
    metadata = {name: value for name, value in body["metadata"].items() if name not in _WRITTEN}
    return {**{name: value for name, value in body.items() if name != "status"}, "metadata": metadata}


_WRITTEN: Final = ("resourceVersion", "managedFields", "generation")
