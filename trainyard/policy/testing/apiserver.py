"""API server engine: each case is a dry-run request against the generated policies."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from trainyard.api.constants import PLATFORM_API_VERSION, TENANT_POLICY_NAME
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.kube.blocking import BlockingSession, wait_for
from trainyard.kube.response import Response
from trainyard.policy.engines.vap.facts import platform_facts, tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL, admission_objects
from trainyard.policy.rules.admission_rule import AdmissionRule, Fragment
from trainyard.policy.testing.cases import (
    ACCOUNT_REQUEST,
    Case,
    CaseWorld,
    Evaluation,
    group_by_parameters,
    spec_of,
)
from trainyard.policy.testing.policy_messages import evaluation_of
from trainyard.policy.testing.scratch import ADMISSION, Placed, Scratch
from trainyard.settings.platform import PolicySettings

_PLATFORM_NAMESPACE = "kube-system"
_NODES = "/api/v1/nodes"
_ACTIVATION_SECONDS = 180.0
"""The API server compiles every policy first, which a busy machine does slowly."""
_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
_CLASS = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
_AT_ONCE = "gracePeriodSeconds=0&propagationPolicy=Background"
_ACTIVE = "failed expression: false"
"""Message of the sentinel policy once it is active."""
_WORKERS = 4
"""Maximum requests in flight."""
_METHODS = {"CREATE": "POST", "UPDATE": "PATCH", "DELETE": "DELETE"}


class ApiServerEngine:
    """Evaluates cases by dry-run requests to a live API server.

    Parameters
    ----------
    session
        Connection with the rights of a cluster administrator.
    library
        Shared CEL fragments; the shipped ones if unset.
    """

    name = "API server"

    def __init__(self, session: BlockingSession, *, library: Mapping[str, Fragment] | None = None) -> None:
        self._session = session
        self._library = library
        self._scratch = Scratch(_new_run())

    def evaluate(self, cases: Iterable[Case], world: CaseWorld) -> list[Evaluation]:
        """Return one evaluation per case, in order; delete all created objects afterwards."""
        cases = list(cases)
        if not cases:
            return []
        evaluations: dict[int, Evaluation] = {}
        for parameters, indices in group_by_parameters(cases):
            self._scratch = Scratch(_new_run())
            part = self._evaluate_part([cases[index] for index in indices], world, parameters)
            evaluations.update(zip(indices, part, strict=True))
        return [evaluations[index] for index in range(len(cases))]

    def _evaluate_part(
        self, cases: Sequence[Case], world: CaseWorld, parameters: Mapping[str, dict[str, Any]]
    ) -> list[Evaluation]:
        """Return the evaluations of cases with one parameter set per rule."""
        rules = {case.rule.id: case.rule for case in cases}
        with ThreadPoolExecutor(_WORKERS) as workers, ExitStack() as stack:
            namespaces = stack.enter_context(self._namespaces(cases, world))
            variants = stack.enter_context(self._platforms(cases, world))
            stack.enter_context(self._user(rules.values()))
            requests = [
                _Request(
                    self._session,
                    self._scratch,
                    case,
                    f"{self._scratch.run}-{number}",
                    namespaces[number],
                    variants[number],
                )
                for number, case in enumerate(cases)
            ]
            stack.enter_context(self._required(requests))
            stack.enter_context(self._old_objects(requests))
            stack.enter_context(self._policies(list(rules.values()), sorted(set(variants)), parameters))
            return list(workers.map(self._evaluate, requests))

    def _evaluate(self, request: _Request) -> Evaluation:
        if request.error:
            return Evaluation(None, error=request.error)
        return evaluation_of(request.case, request.send())

    @contextmanager
    def _created(self, objects: Sequence[Placed]) -> Iterator[None]:
        made: list[str] = []
        try:
            for path, body in objects:
                self._create(path, body)
                made.append(f"{path}/{body['metadata']['name']}")
            yield
        finally:
            for path in reversed(made):
                self._session.request("DELETE", path)

    def _create(self, path: str, body: Mapping[str, Any]) -> None:
        try:
            self._session.create(path, body)
        except ApiError as error:
            raise TrainyardError(
                f"{body['kind']} {body['metadata']['name']} was refused: {error.message}",
                fix="run the cases on a cluster where nothing else is installed",
            ) from error

    @contextmanager
    def _namespaces(self, cases: Sequence[Case], world: CaseWorld) -> Iterator[list[str]]:
        """Create a namespace per distinct TenantPolicy, with its facts.

        An installed platform's controller removes facts without a TenantPolicy, so the TenantPolicies are created too.
        """
        installed = self._session.request("GET", f"/apis/{PLATFORM_API_VERSION}/tenantpolicies?limit=1").ok
        names: dict[str, str] = {}
        namespaces: list[Placed] = []
        policies: list[Placed] = []
        assigned = []
        for case in cases:
            if case.content.namespace == "platform":
                assigned.append(_PLATFORM_NAMESPACE)
                continue
            tenant = case.content.namespace == "tenant"
            spec = spec_of(world.tenant_policy, case.content.tenant_policy) if tenant else None
            subject = case.content.object or case.content.old_object or {}
            with_policy = installed and spec is not None and subject.get("kind") != "TenantPolicy"
            key = json.dumps([tenant, spec, with_policy], sort_keys=True)
            if key not in names:
                name = names[key] = f"{self._scratch.run}-{len(names)}"
                labels = {TENANT_LABEL: "tenant"} if tenant else {}
                namespaces.append(self._scratch.namespace(name, tenant_facts(spec), labels))
                if with_policy and spec is not None:
                    path = f"/apis/{PLATFORM_API_VERSION}/namespaces/{name}/tenantpolicies"
                    policies.append((path, _tenant_policy(spec)))
            assigned.append(names[key])
        with self._created(namespaces):
            for name in names.values():
                for account in sorted({"default", *map(_account, cases)}):
                    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
                    self._session.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", body)
            with self._created(policies):
                yield assigned

    def _answers(self, path: str, headers: Sequence[tuple[str, str]] = ()) -> Callable[[], bool]:
        return lambda: self._session.request("GET", path, headers=headers).ok

    @contextmanager
    def _platforms(self, cases: Sequence[Case], world: CaseWorld) -> Iterator[list[str]]:
        """Create one namespace per distinct Platform, with its facts."""
        names: dict[str, str] = {}
        objects: list[Placed] = []
        assigned: list[str] = []
        for case in cases:
            spec = spec_of(world.platform, case.content.platform)
            key = json.dumps(spec, sort_keys=True)
            if key not in names:
                names[key] = f"{self._scratch.run}-platform-{len(names)}"
                objects.append(self._scratch.namespace(names[key], platform_facts(spec)))
            assigned.append(names[key])
        with self._created(objects):
            yield assigned

    @contextmanager
    def _user(self, rules: Iterable[AdmissionRule]) -> Iterator[None]:
        """Grant the users of the cases write access to the kinds under test, and nothing else."""
        groups: dict[str, set[str]] = {"": {"configmaps"}}
        for rule in rules:
            for match in rule.matches:
                groups.setdefault(match.served[0], set()).add(match.resource)
        grants = [
            {"apiGroups": [group], "resources": sorted(resources), "verbs": ["*"]}
            for group, resources in sorted(groups.items())
        ]
        with self._created(self._scratch.role(grants)):
            headers = [("Impersonate-User", "probe"), ("Impersonate-Group", self._scratch.users)]
            wait_for("the role of the test's users", self._answers("/api/v1/configmaps?limit=1", headers))
            yield

    @contextmanager
    def _required(self, requests: Iterable[_Request]) -> Iterator[None]:
        """Create the nodes and RuntimeClasses of old pods.

        Kubernetes rejects a pod without its RuntimeClass, and deletes one whose node is missing after about a minute.
        """
        specs = [request.old_pod for request in requests]
        nodes = {str(spec.get("nodeName") or "") for spec in specs} - {""}
        classes = {str(spec.get("runtimeClassName") or "") for spec in specs} - {""}
        objects: list[Placed] = [
            *((_NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": each}}) for each in sorted(nodes)),
            *((_CLASSES, {**_CLASS, "metadata": {"name": each}, "handler": each}) for each in sorted(classes)),
        ]
        made = []
        try:
            for path, body in objects:
                if self._session.request("POST", path, body).ok:
                    made.append(f"{path}/{body['metadata']['name']}")
            yield
        finally:
            for path in made:
                self._session.request("DELETE", path)

    @contextmanager
    def _old_objects(self, requests: Sequence[_Request]) -> Iterator[None]:
        """Create the old objects of updates and deletions before any policy of the run; cases may share them."""
        made: list[_Request] = []
        try:
            for request in requests:
                old = request.old_object
                if old is None or request.error or any(request.starts_like(other) for other in made):
                    continue
                response = self._session.request("POST", request.collection, old)
                if not response.ok:
                    request.error = f"oldObject was rejected: {response.message}"
                    continue
                made.append(request)
                if request.terminating:
                    self._session.request("DELETE", request.item)
            yield
        finally:
            for request in made:
                self._session.request("PATCH", request.item, {"metadata": {"finalizers": None}})
                self._session.request("DELETE", f"{request.item}?{_AT_ONCE}")

    @contextmanager
    def _policies(
        self, rules: Sequence[AdmissionRule], variants: Sequence[str], parameters: Mapping[str, dict[str, Any]]
    ) -> Iterator[None]:
        settings = PolicySettings(exempt_namespaces=(_PLATFORM_NAMESPACE,), parameters=dict(parameters))
        states = {rule.id: rule.state for rule in rules}
        objects: list[Placed] = []
        for manifest in admission_objects(rules, settings, (), library=self._library):
            rule_id = manifest["metadata"]["labels"]["trainyard.dev/rule"]
            if manifest["kind"] == "ValidatingAdmissionPolicy":
                objects.append((f"{ADMISSION}/validatingadmissionpolicies", self._scratch.policy(manifest)))
            else:
                bindings = self._scratch.bindings(manifest, rule_id, states[rule_id], variants)
                objects.extend((f"{ADMISSION}/validatingadmissionpolicybindings", binding) for binding in bindings)
        objects.extend(self._scratch.sentinel())
        with self._created(objects):
            metadata = {"name": "probe", "labels": self._scratch.probe_labels}
            wait_for("activation of the policies", self._denied(metadata), timeout=_ACTIVATION_SECONDS)
            yield

    def _denied(self, metadata: Mapping[str, Any]) -> Callable[[], bool]:
        path = f"/api/v1/namespaces/{_PLATFORM_NAMESPACE}/configmaps"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

        def denied() -> bool:
            return _ACTIVE in self._session.request("POST", path, body, dry_run=True).message

        return denied


class _Request:
    """One case as a request."""

    def __init__(
        self, session: BlockingSession, scratch: Scratch, case: Case, name: str, namespace: str, variant: str
    ) -> None:
        self._session = session
        self._users = scratch.users
        self._labels = scratch.labels(case.rule.id, variant)
        self.case = case
        self.error = ""
        self.collection = ""
        subject = case.content.object or case.content.old_object or {}
        self._name = subject.get("metadata", {}).get("name") or name
        match = case.match
        if match is None:
            self.error = f"the rule does not match {subject.get('apiVersion')} {subject.get('kind')}"
            return
        group, version = match.served
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        scope = f"/namespaces/{namespace}" if match.scope == "Namespaced" else ""
        resource, slash, subresource = match.resource.partition("/")
        self.collection = f"{root}{scope}/{resource}"
        self._subresource = f"{slash}{subresource}"

    @property
    def item(self) -> str:
        return f"{self.collection}/{self._name}"

    @property
    def terminating(self) -> bool:
        return "deletionTimestamp" in (self.case.content.old_object or {}).get("metadata", {})

    @property
    def old_object(self) -> dict[str, Any] | None:
        return self._under_test(self.case.content.old_object)

    @property
    def old_pod(self) -> Mapping[str, Any]:
        """Spec of the old object; empty if it is no pod."""
        old = self.case.content.old_object or {}
        return old.get("spec") or {} if old.get("kind") == "Pod" else {}

    def starts_like(self, other: _Request) -> bool:
        """Whether another case has created the same old object."""
        return self.item == other.item and self.old_object == other.old_object

    def send(self) -> Response:
        user = self.case.content.user
        groups = (*user.groups, self._users, "system:authenticated")
        headers = [("Impersonate-User", user.name), *(("Impersonate-Group", group) for group in groups)]
        body = self._under_test(self.case.content.object) or self._options
        created = self.case.operation == "CREATE" and not self._subresource
        path = self.collection if created else f"{self.item}{self._subresource}"
        return self._session.request(_METHODS[self.case.operation], path, body, dry_run=True, headers=headers)

    @property
    def _options(self) -> dict[str, Any] | None:
        """The body of a deletion; the API server reads no query beside it."""
        options = self.case.content.options
        return {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **options} if options else None

    def _under_test(self, body: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if body is None:
            return None
        result = copy.deepcopy(dict(body))
        metadata = result.setdefault("metadata", {})
        metadata["name"] = self._name
        metadata["labels"] = {**metadata.get("labels", {}), **self._labels}
        for owner in metadata.get("ownerReferences") or ():
            # The owners do not exist; the garbage collector ignores owners of a version that is not served.
            owner["apiVersion"] = f"{owner['apiVersion'].rpartition('/')[0]}/unserved"
        if self.case.is_stored:
            metadata.pop("deletionTimestamp", None)
        return result


def _account(case: Case) -> str:
    """Return the account of a pod or a token, without which the API server rejects it before evaluating policies."""
    subject = case.content.object or {}
    if subject.get("kind") == ACCOUNT_REQUEST:
        return str(subject["metadata"]["name"])
    spec = subject.get("spec") if subject.get("kind") == "Pod" else None
    name = (spec.get("serviceAccountName") or spec.get("serviceAccount")) if isinstance(spec, dict) else None
    return name if isinstance(name, str) and name else "default"


def _tenant_policy(spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata, body = {"name": TENANT_POLICY_NAME}, {**spec}
    body.pop("defaultQueue", None)
    return {"apiVersion": PLATFORM_API_VERSION, "kind": "TenantPolicy", "metadata": metadata, "spec": body}


def _new_run() -> str:
    return f"t{uuid.uuid4().hex[:8]}"
