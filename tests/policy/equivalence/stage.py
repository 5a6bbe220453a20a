"""The API server as a gate: the generated policies, reviewing each subject twice.

Once with bindings that warn of every violation, because a denial names the first one only; once with the bindings as
they are, because their outcome is what must hold. Both review by policies that match only what this run has made.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, Final

from tests.policy.equivalence.generator import Start, Subject
from tests.policy.equivalence.reviewed import Finding, Reviewed
from tests.policy.equivalence.worlds import PLATFORM_NAMESPACE, TODAY, USERS, Home, Worlds
from trainyard.kube.blocking import BlockingSession, wait_for
from trainyard.kube.response import Response
from trainyard.policy.engines.vap.facts import platform_facts, tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL, admission_objects
from trainyard.policy.rules.admission_rule import AdmissionRule, Match
from trainyard.policy.testing.policy_messages import findings_of
from trainyard.policy.testing.scratch import ADMISSION, Placed, Scratch
from trainyard.settings.platform import PolicySettings

WORKERS: Final = 8
EXHAUSTIVE, FAITHFUL = "exhaustive", "faithful"
_WARNINGS: Final = 3600
"""Most characters of the warnings about one request, below the 4096 at which the API server cuts them."""
_OF_A_RULE: Final = re.compile(r"[A-Z]{3}-[0-9]{3} ")
"""Beginning of a message; an evaluation error has none."""
_CONTROL: Final = re.compile(r"\\[bfnrt]|\\u00[01]")
"""Control characters as JSON writes them: what a warning with one of them says does not arrive."""

_AT_ONCE: Final = "gracePeriodSeconds=0&propagationPolicy=Background"
_ONE_DEFAULT: Final = "Only one default can exist"
"""Said by the admission plug-in Priority."""
_NO_RUNTIME_CLASS = "resource name may not be empty"
"""Answer (500) of the admission plug-in RuntimeClass, which precedes policies, for an empty name."""
_DENIED = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: (.*)", re.DOTALL)
_WARNED = re.compile(r"Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '[^']+': (.*)", re.DOTALL)
_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_REVIEWING: Final = "failed expression: false"
_ACTIVATION_SECONDS: Final = 180.0
"""The API server compiles every policy first, which a busy machine does slowly."""
"""What the sentinel says once it reviews."""


class Stage:
    """The worlds on an API server, and the policies of a stack.

    Parameters
    ----------
    session
        Connection of an administrator.
    rules
        The catalog.
    worlds
        Where the subjects live.
    run
        Name of the run; no other has it.
    settings
        Gives the stack's settings; asked once the namespaces have names.
    brief
        Whether the policies say nothing but the rule and the paths, so that no warning is lost: the API server drops
        what goes beyond the size of an answer.
    """

    def __init__(
        self,
        session: BlockingSession,
        rules: Sequence[AdmissionRule],
        worlds: Worlds,
        run: str,
        settings: Callable[[Callable[[str], str]], PolicySettings],
        *,
        brief: bool,
    ) -> None:
        self._session, self._rules, self._worlds, self.run = session, rules, worlds, run
        self._scratch, self._brief = Scratch(run), brief
        self._matches = [match for rule in rules for match in rule.matches]
        self.settings = settings(self.namespace)
        self.exempt = sorted(
            {
                *self.settings.exempt_namespaces,
                *(self.namespace(home.name) for home in worlds.homes.values() if home.exempt),
            }
        )
        self._starts: dict[tuple[int, str], dict[str, Any] | str] = {}

    def namespace(self, home: str) -> str:
        """Return the namespace that a home is."""
        return PLATFORM_NAMESPACE if home == PLATFORM_NAMESPACE else f"{self.run}-{home}"

    def name(self, subject: Subject) -> str:
        """Return the name of a subject's object."""
        return f"{self.run}-{subject.number}{subject.ending}"

    def match(self, subject: Subject) -> Match:
        """Return how a subject's kind is served."""
        shape = subject.shape
        return next(
            match
            for match in self._matches
            if (match.api_version, match.kind) == (shape["apiVersion"], shape["kind"])
            and match.resource.partition("/")[2] == subject.subresource
        )

    def reviewed(self, subjects: Sequence[Subject]) -> list[Reviewed]:
        """Return what the API server says about each subject, in order; what is made for them is removed again."""
        with ThreadPoolExecutor(WORKERS) as workers, ExitStack() as stack:
            stack.enter_context(self._context_objects(_accounts(subjects)))
            stack.enter_context(self._begun(subjects, workers))
            stack.enter_context(self._policies(workers))
            return list(workers.map(self._review, subjects))

    @contextmanager
    def _context_objects(self, names: Iterable[str]) -> Iterator[None]:
        homes = [home for home in self._worlds.homes.values() if home.name != PLATFORM_NAMESPACE]
        namespaces = [self._namespace(home) for home in homes]
        accounts: list[Placed] = [
            (f"/api/v1/namespaces/{self.namespace(home.name)}/serviceaccounts", _named("ServiceAccount", "v1", name))
            for home in homes
            for name in names
        ]
        platforms = [
            self._scratch.namespace(self._platform(name), platform_facts(spec))
            for name, spec in self._worlds.platforms.items()
        ]
        classes: list[Placed] = [
            (
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {**_named("PriorityClass", "scheduling.k8s.io/v1", name), "value": 1},
            )
            for name in ("normal", "high")
        ]
        with self._created([*namespaces, *platforms]):
            for path, body in accounts:
                self._session.request("POST", path, body)
            with self._created(classes), self._created(self._roles()):
                user = [("Impersonate-User", "probe"), ("Impersonate-Group", self._scratch.users)]
                wait_for(
                    "the role of the test's users",
                    lambda: self._session.request("GET", "/api/v1/configmaps?limit=1", headers=user).ok,
                )
                yield

    def _namespace(self, home: Home) -> Placed:
        labels = {TENANT_LABEL: "vision"} if home.labelled else {}
        return self._scratch.namespace(self.namespace(home.name), tenant_facts(home.policy), labels)

    def _platform(self, variant: str) -> str:
        """Return the namespace that carries what a Platform says."""
        return f"{self.run}-platform-{variant}"

    def _roles(self) -> list[Placed]:
        grants = [
            {
                "apiGroups": [match.served[0]],
                "resources": [match.resource, match.resource.partition("/")[0]],
                "verbs": ["*"],
            }
            for match in self._matches
        ]
        editors = f"{self.run}-editors"
        api = "rbac.authorization.k8s.io"
        rule = {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingadmissionpolicies"],
            "verbs": ["update"],
        }
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": editors}
        subjects = [{"apiGroup": api, "kind": "Group", "name": "policy-editors"}]
        binding = {"roleRef": reference, "subjects": subjects}
        return [
            *self._scratch.role(grants),
            (f"/apis/{api}/v1/clusterroles", {**_named("ClusterRole", f"{api}/v1", editors), "rules": [rule]}),
            (f"/apis/{api}/v1/clusterrolebindings", {**_named("ClusterRoleBinding", f"{api}/v1", editors), **binding}),
        ]

    @contextmanager
    def _created(self, objects: Sequence[Placed], workers: ThreadPoolExecutor | None = None) -> Iterator[None]:
        mapped: Any = map if workers is None else workers.map
        try:
            list(mapped(lambda placed: self._session.create(*placed), objects))
            yield
        finally:
            paths = [f"{path}/{body['metadata']['name']}" for path, body in reversed(objects)]
            list(mapped(lambda path: self._session.request("DELETE", path), paths))

    @contextmanager
    def _begun(self, subjects: Sequence[Subject], workers: ThreadPoolExecutor) -> Iterator[None]:
        """Make what updates and deletions start from, before any policy of the run exists."""
        wanted = {
            (subject.start.number, mode): (subject, subject.start)
            for subject in subjects
            for mode in (EXHAUSTIVE, FAITHFUL)
            if subject.start is not None
        }  # fmt: skip

        def begin(key: tuple[int, str]) -> None:
            subject, start = wanted[key]
            body = self._labelled(start.body, key[1], start.platform)
            body["metadata"]["name"] = self._start_name(subject, start, key[1])
            answer = self._session.request("POST", self._collection(subject), body)
            self._starts[key] = dict(answer.body) if answer.ok else answer.message
            if answer.ok and _holds_token(answer.body):
                self._starts[key] = self._with_token(self._item(subject, body["metadata"]["name"]), answer.body)
            if answer.ok and start.terminating:
                self._session.request("DELETE", self._item(subject, body["metadata"]["name"]))
                now = self._session.request("GET", self._item(subject, body["metadata"]["name"]))
                self._starts[key] = dict(now.body) if now.ok else now.message

        def end(key: tuple[int, str]) -> None:
            subject, start = wanted[key]
            item = self._item(subject, self._start_name(subject, start, key[1]))
            self._session.request("PATCH", item, {"metadata": {"finalizers": None}})
            self._session.request("DELETE", f"{item}?{_AT_ONCE}")

        try:
            list(workers.map(begin, wanted))
            yield
        finally:
            list(workers.map(end, [key for key in wanted if isinstance(self._starts.get(key), dict)]))

    def _with_token(self, item: str, created: Mapping[str, Any]) -> dict[str, Any]:
        """Return a Secret once the token controller has filled it in; from then on, all gates see the same."""
        found = dict(created)

        def filled() -> bool:
            answer = self._session.request("GET", item)
            found.update(answer.body if answer.ok else {})
            data, annotations = found.get("data") or {}, found["metadata"].get("annotations") or {}
            return not answer.ok or bool(data.get("token") and annotations.get(_ACCOUNT_UID))

        wait_for(f"the token of {item}", filled)
        return found

    def _start_name(self, subject: Subject, start: Start, mode: str) -> str:
        return f"{self.run}-old-{start.number}-{mode}{subject.ending}"

    def _collection(self, subject: Subject) -> str:
        match = self.match(subject)
        root = f"/apis/{match.api_version}" if match.group else f"/api/{match.api_version}"
        scope = f"/namespaces/{self.namespace(subject.home)}" if match.scope == "Namespaced" else ""
        return f"{root}{scope}/{match.resource.partition('/')[0]}"

    def _item(self, subject: Subject, name: str) -> str:
        return f"{self._collection(subject)}/{name}"

    def _labelled(self, body: Mapping[str, Any], mode: str, platform: str) -> dict[str, Any]:
        result = copy.deepcopy(dict(body))
        metadata = result.setdefault("metadata", {})
        labels = metadata.get("labels")
        if labels is None or isinstance(labels, dict):
            metadata["labels"] = {**(labels or {}), **self._selected(mode, platform)}
        owners = metadata.get("ownerReferences")
        for owner in owners if isinstance(owners, list) else ():
            # The owners do not exist; of a version that is not served the garbage collector lets them be.
            if isinstance(owner, dict) and isinstance(owner.get("apiVersion"), str):
                owner["apiVersion"] = f"{owner['apiVersion'].rpartition('/')[0]}/unserved"
        for name in ("deletionTimestamp", "namespace"):
            metadata.pop(name, None)
        return result

    def _selected(self, mode: str, platform: str = "") -> dict[str, str]:
        return {key: value for key, value in self._scratch.labels(mode, platform).items() if value}

    @contextmanager
    def _policies(self, workers: ThreadPoolExecutor) -> Iterator[None]:
        rules = [_briefly(rule) for rule in self._rules] if self._brief else self._rules
        policies: list[Placed] = []
        bindings: list[Placed] = []
        for manifest in admission_objects(rules, self.settings, self.exempt, today=TODAY):
            if manifest["kind"] == "ValidatingAdmissionPolicy":
                policies.append((f"{ADMISSION}/validatingadmissionpolicies", self._scratch.policy(manifest)))
            else:
                bindings += [placed for mode in (EXHAUSTIVE, FAITHFUL) for placed in self._bound(manifest, mode)]
        sentinel = self._scratch.sentinel()
        with self._created(policies, workers), self._created(bindings, workers), self._created(sentinel):
            metadata = {"name": "probe", "labels": self._scratch.probe_labels}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            wait_for("activation of the policies", lambda: self._probed(body), timeout=_ACTIVATION_SECONDS)
            yield

    def _probed(self, body: Mapping[str, Any]) -> bool:
        path = f"/api/v1/namespaces/{PLATFORM_NAMESPACE}/configmaps"
        return _REVIEWING in self._session.request("POST", path, body, dry_run=True).message

    def _bound(self, manifest: Mapping[str, Any], mode: str) -> Iterator[Placed]:
        spec, name = manifest["spec"], manifest["metadata"]["name"]
        reads_platform = "paramRef" in spec
        for variant in self._worlds.platforms if reads_platform else ("",):
            each = copy.deepcopy(dict(manifest))
            spec = each["spec"]
            each["metadata"] = {"name": f"{self.run}-{mode[0]}{variant and f'.{variant}'}.{name}"}
            spec["policyName"] = f"{self.run}.{spec['policyName']}"
            spec["matchResources"]["objectSelector"] = {"matchLabels": self._selected(mode, variant)}
            if reads_platform:
                spec["paramRef"]["name"] = self._platform(variant)
            if mode == EXHAUSTIVE:
                spec["validationActions"] = ["Warn"]
            yield f"{ADMISSION}/validatingadmissionpolicybindings", each

    def _review(self, subject: Subject) -> Reviewed:
        reviewed = Reviewed(subject, "" if self.match(subject).scope == "Cluster" else self.namespace(subject.home), "")
        answer = self._sent(reviewed, EXHAUSTIVE)
        if answer is None:
            return reviewed
        if not answer.ok and "ValidatingAdmissionPolicy" not in answer.message:
            reviewed.refused = answer.message
            reviewed.shape_rules = _shape_rules(answer)
            return reviewed
        if subject.operation != "DELETE":
            reviewed.body = dict(answer.body)
        reviewed.findings = self._read(reviewed, answer)
        if not answer.ok:
            reviewed.unevaluated.append(answer.message)
        before, body = reviewed.before, reviewed.body
        answer = self._sent(reviewed, FAITHFUL)
        reviewed.before, reviewed.body = before, body
        if answer is None:
            return reviewed
        reviewed.warned = self._read(reviewed, answer)
        reviewed.allowed = answer.ok
        denied = _DENIED.search(answer.message)
        if denied:
            rule, paths = findings_of(denied[2])
            reviewed.denial = (rule or self._rule(denied[1]), paths)
        elif not answer.ok:
            reviewed.error = f"refused by something else: {answer.message}"
        return reviewed

    def _sent(self, reviewed: Reviewed, mode: str) -> Response | None:
        subject = reviewed.subject
        name, before = self.name(subject), None
        if subject.start is not None:
            begun = self._starts[subject.start.number, mode]
            if isinstance(begun, str):
                reviewed.error = f"start was refused: {begun}"
                return None
            name, before = begun["metadata"]["name"], begun
            if begun.get("kind") in ("Deployment", "Pod"):  # a controller or the scheduler writes into it meanwhile
                found = self._session.request("GET", self._item(subject, name))
                before = dict(found.body) if found.ok else begun
        body = None if subject.body is None else self._labelled(subject.body, mode, subject.platform)
        if body is not None:
            body["metadata"]["name"] = name
            if before is not None and subject.start is not None and body.get("kind") in ("Pod", "Job"):
                _fill_in(body.get("spec"), subject.start.body.get("spec"), before["spec"])
            token = before is not None and _holds_token(before)
            if before is not None and subject.start is not None and token:
                _fill_in(body.get("data"), subject.start.body.get("data"), before["data"])
                own, start = body.get("metadata") or {}, subject.start.body["metadata"]
                _fill_in(own.get("annotations"), start.get("annotations"), before["metadata"]["annotations"])
            if before is not None and (token or not self.match(subject).built_in):
                body["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        reviewed.name, reviewed.sent, reviewed.before = name, body, before
        user = USERS[subject.user]
        home = self.namespace(subject.home)
        groups = (*(group.format(home=home) for group in user.groups), self._scratch.users, "system:authenticated")
        headers = [
            ("Impersonate-User", user.name.format(home=home)),
            *(("Impersonate-Group", group) for group in groups),
        ]
        method = {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}[subject.operation]
        path = self._collection(subject) if subject.operation == "CREATE" else self._item(subject, name)
        path += f"/{subject.subresource}" if subject.subresource else ""
        if subject.options:  # The API server reads no query beside the body of a deletion.
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **subject.options}
        answer = self._session.request(method, path, body, dry_run=True, headers=headers)
        if answer.status == 404 and before is not None:
            # The garbage collector of pods deletes those on nodes that do not exist.
            reviewed.error = f"start was refused: {answer.message}"
            return None
        if _ONE_DEFAULT in answer.message:
            # Another subject is the default at the same time.
            reviewed.error = f"start was refused: {answer.message}"
            return None
        if answer.status in (404, 409, 429, 500, 503, 504) and answer.message != _NO_RUNTIME_CLASS:
            reviewed.error = f"{answer.status} {answer.message}"
            return None
        return answer

    def _read(self, reviewed: Reviewed, answer: Response) -> frozenset[Finding]:
        """Return the violations that the warnings name."""
        found = set()
        lost = not self._brief and _CONTROL.search(json.dumps(answer.body if answer.ok else reviewed.sent))
        reviewed.complete &= sum(map(len, answer.warnings)) < _WARNINGS and not lost
        for text in (match[2] for warning in answer.warnings if (match := _WARNED.match(warning))):
            rule, paths = findings_of(text)
            if rule is None and _OF_A_RULE.match(text):
                reviewed.complete = False  # cut off within its paths: then the sum is shorter than what was said
            elif rule is None:
                reviewed.unevaluated.append(text)
            found |= {(rule, path) for path in paths if rule}
        return frozenset(found)

    def _rule(self, policy: str) -> str:
        return self._ids[policy.removeprefix(f"{self.run}.").partition(".")[0]]

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {rule.id.lower(): rule.id for rule in self._rules}


def _fill_in(own: Any, start: Any, stored: Mapping[str, Any]) -> None:
    """Add to a changed part what the cluster added to the stored one, as a client does that read it first."""
    if isinstance(own, dict) and isinstance(start, Mapping):
        for field, value in stored.items():
            if field not in start:
                own.setdefault(field, value)
            elif isinstance(value, Mapping):
                _fill_in(own.get(field), start[field], value)


def _holds_token(body: Mapping[str, Any]) -> bool:
    """Whether it is a Secret that the token controller of the cluster fills in."""
    return body.get("kind") == "Secret" and body.get("type") == "kubernetes.io/service-account-token"


def _named(kind: str, version: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _briefly(rule: AdmissionRule) -> AdmissionRule:
    """Return a rule that says nothing but its id and the paths, so that warnings about many of them fit an answer."""
    if rule.cel is None:
        return rule
    validations = [each.model_copy(update={"message": "-", "values": {}}) for each in rule.cel.validations]
    cel = rule.cel.model_copy(update={"validations": tuple(validations)})
    return rule.model_copy(update={"cel": cel, "fix": "-", "title": "-"})


def _shape_rules(answer: Response) -> frozenset[str]:
    causes = answer.body.get("details", {}).get("causes", []) if isinstance(answer.body.get("details"), dict) else []
    texts = [str(cause.get("message", "")) for cause in causes]
    return frozenset(rule for text in texts for rule in re.findall(r"\b([A-Z]{3}-[0-9]{3})\b", text))


def _accounts(subjects: Iterable[Subject]) -> list[str]:
    """Return the service accounts that a namespace needs: a token of none is removed by Kubernetes at any moment."""
    names = {"default", "trainer", "builder"}
    for subject in subjects:
        annotations = subject.start.body["metadata"].get("annotations") if subject.start else None
        names.add((annotations or {}).get("kubernetes.io/service-account.name"))
    return sorted(name for name in names if isinstance(name, str) and name)
