"""Values of the ledger as requests of a tenant's users to a live platform."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.cluster.bypass import GROUPS
from tests.cluster.bypass_objects import KINDS, TENANT, Body
from tests.policy.shipped import RULES
from tests.policy.surface_cases import SurfaceCase
from tests.policy.surface_places import DENIED
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.client import Client
from trainyard.kube.response import Response
from trainyard.policy.rules.admission_rule import POD_CONTROLLERS
from trainyard.policy.testing.cases import CaseDecision
from trainyard.settings.platform import PolicyState

WIDE_GROUP: Final = "ledger-editors"
"""Group with the ClusterRole edit in the tenant's namespace, for kinds that no role of a tenant writes."""

_ROLES: Final = {
    **dict.fromkeys(("TrainJob", "PersistentVolumeClaim"), "submit"),
    "TrainingRuntime": "author",
    **dict.fromkeys(("Pod", "Job", "JobSet", "VolcanoJob"), "raw"),
}
_LABELS: Final = {"app": "ledger"}
_REQUIRED: Final[Mapping[str, Body]] = {
    **{kind: {"selector": {"matchLabels": _LABELS}} for kind in ("Deployment", "DaemonSet", "ReplicaSet")},
    "StatefulSet": {"selector": {"matchLabels": _LABELS}, "serviceName": "ledger"},
    "ReplicationController": {"selector": _LABELS},
    "CronJob": {"schedule": "0 3 1 1 *"},
}
"""What the schema of a kind requires beside the value, which no rule reads."""

_CONTROLLERS: Final = {f"{group}/v1 {kind}".removeprefix("/") for group, kind in POD_CONTROLLERS}
_OVERRIDES: Final = ("runtimePatches", "podTemplateOverrides", "podSpecOverrides")
_TOO_MANY: Final = "Too many: "
_DROPPED: Final = {"dataSourceRef.**": "feature gate CrossNamespaceVolumeDataSource, which is off by default"}
"""Fields that the API server drops, and the gate with which it would not."""
_CONCURRENT: Final = 8
_RULE: Final = re.compile(r"\b[A-Z]{3}-[0-9]{3}\b")
_WARNING: Final = frozenset(rule.id for rule in RULES if rule.state is PolicyState.WARN)


def one_per_level(cases: Iterable[SurfaceCase]) -> dict[tuple[str, str], list[SurfaceCase]]:
    """Return each entry's attack and legitimate value once per level, by level.

    Fields of one entry have the same rules, and the controllers of pods are read alike: an entry is sent with one field
    and one kind of controller, in turn. tests/policy/test_surface_attacks.py evaluates all of them.
    """
    chosen: dict[tuple[int, CaseDecision], dict[tuple[str, str], SurfaceCase]] = {}
    for each in cases:
        if each.body["kind"] == DENIED:
            continue  # the API server names one rule that denies, which can be TEN-005
        if each.level[1] == "trainer" and {case.rule.id for case in each.cases} == {"ENV-002"}:
            continue  # rendering rejects these variables of the trainer, before any rule
        if _sets_variables(each) and each.level[1] in _OVERRIDES:
            continue  # a TrainJob sets variables in spec.trainer.env only, which its webhook says before any rule
        chosen.setdefault((id(each.entry), each.verdict), {}).setdefault(each.level, each)
    levels: dict[tuple[str, str], list[SurfaceCase]] = {}
    for turn, found in enumerate(chosen.values()):
        controllers = [level for level in found if level[0] in _CONTROLLERS]
        left_out = {level for index, level in enumerate(controllers) if index != turn % len(controllers)}
        for level in found.keys() - left_out:
            levels.setdefault(level, []).append(found[level])
    return dict(sorted(levels.items()))


def _sets_variables(case: SurfaceCase) -> bool:
    """Whether nothing but variables is wrong or right with it; devices are named by the rule before the webhook."""
    variables = case.type_name in ("Variables", "EnvVar")
    return variables and (
        case.verdict is CaseDecision.ALLOW or {each.rule.id for each in case.cases} <= {"ENV-001", "ENV-002"}
    )


def send_all(session: BlockingSession, cases: Sequence[SurfaceCase]) -> list[Response]:
    """Create the object of each case as a dry run, in order; some at the same time."""

    async def sent(client: Client) -> list[Response]:
        free = asyncio.Semaphore(_CONCURRENT)

        async def one(number: int, case: SurfaceCase) -> Response:
            kind, body = _request(case, f"ledger-{number}")
            async with free:
                return await client.exchange(
                    "POST",
                    KINDS[kind].path(TENANT),
                    body=body,
                    query={"dryRun": "All", "fieldValidation": "Strict"},
                    headers=_user(kind),
                )

        return await asyncio.gather(*(one(number, case) for number, case in enumerate(cases)))

    return session.run(sent)


def fault(case: SurfaceCase, answer: Response) -> str:
    """Return how an answer differs from the ledger; empty if it does not.

    An attack is denied by a rule of its entry, or accepted with its warning where that is the rule's state.
    """
    rules = {each.rule.id for each in case.cases}
    found = rules & set(_RULE.findall(" ".join((answer.message if not answer.ok else "", *answer.warnings))))
    shown = f"{answer.status}: {answer.message if not answer.ok else ''} {' '.join(answer.warnings)}".strip()
    if case.verdict is CaseDecision.ALLOW:
        return "" if answer.ok and not found else f"expected no violation of {sorted(rules)}, got {shown}"
    if case.entry.length and not answer.ok and _TOO_MANY in answer.message:
        return ""  # the schema of the kind has a limit itself
    if answer.ok and case.field in _DROPPED and _at(answer.body, case.place) is None:
        return ""
    denied = found if not answer.ok else found & _WARNING
    return "" if denied else f"expected {' or '.join(sorted(rules))}, got {shown}"


def _at(body: Any, place: Sequence[str | int]) -> Any:
    for step in place:
        found = isinstance(body, list) and len(body) > int(step) if isinstance(step, int) else step in (body or {})
        body = body[step] if found else None
    return body


def _request(case: SurfaceCase, name: str) -> tuple[str, Body]:
    body = copy.deepcopy(case.body)
    kind = "VolcanoJob" if body["apiVersion"].startswith("batch.volcano.sh/") else body["kind"]
    body.setdefault("metadata", {}).update(name=name, **({"namespace": TENANT} if KINDS[kind].namespaced else {}))
    if kind in _REQUIRED:
        spec = body["spec"]
        spec.update({**_REQUIRED[kind], **spec})
        if "template" in spec:
            labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
            labels.update(_LABELS)
    return kind, body


def _user(kind: str) -> list[tuple[str, str]]:
    who = _ROLES.get(kind, "wide")
    groups: tuple[str, ...] = (*GROUPS.get(who, (WIDE_GROUP,)), "system:authenticated")
    return [("Impersonate-User", f"{who}@example.com"), *(("Impersonate-Group", group) for group in groups)]
