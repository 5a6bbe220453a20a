"""The other gates: the policy server as the webhook asks it, and ``trainyard check`` as people run it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.policy.equivalence.reviewed import Finding, Reviewed
from tests.policy.equivalence.stage import Stage
from tests.policy.equivalence.worlds import NOW, USERS, Worlds
from trainyard.api.constants import PLATFORM_API_VERSION
from trainyard.policy.check.runner import check_paths, open_rule_set
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.review import AdmissionContext, Decision, Review, decision_of, documents_of

_BATCH = 50


def decisions(address: OpaAddress, reviewed: Sequence[Reviewed], stage: Stage, worlds: Worlds) -> list[Decision]:
    """Return what the policy server says about the very objects that the policies of the API server saw."""
    context = AdmissionContext(stage.settings, stage.exempt, NOW)

    async def answers() -> list[Decision]:
        found: list[Decision] = []
        async with OpaClient(address, timeout=60) as client:
            for start in range(0, len(reviewed), _BATCH):
                reviews = [_review(each, worlds, stage) for each in reviewed[start : start + _BATCH]]
                answer = await client.decide_all(documents_of(reviews, context))
                found += [decision_of(each) for each in answer]
        return found

    return asyncio.run(answers())


def _review(reviewed: Reviewed, worlds: Worlds, stage: Stage) -> Review:
    subject = reviewed.subject
    home = worlds.homes[subject.home]
    user = USERS[subject.user]
    clustered = not reviewed.namespace
    # An account has a namespace, also where the object has none.
    account_home = stage.namespace(subject.home)
    return Review(
        subject.operation,
        reviewed.body,
        reviewed.before,
        namespace=reviewed.namespace,
        namespace_labels=_labels(subject.home, worlds) if not clustered else {},
        user=user.name.format(home=account_home),
        groups=[group.format(home=account_home) for group in user.groups],
        administrator=user.administrator,
        platform=worlds.platforms[subject.platform],
        tenant_policy=None if clustered else home.policy,
        subresource=subject.subresource,
        options=subject.options,
    )


def _labels(home: str, worlds: Worlds) -> dict[str, str]:
    return {TENANT_LABEL: "vision"} if worlds.homes[home].labelled else {}


@dataclass(frozen=True)
class Checked:
    """What ``trainyard check`` says about an object."""

    errors: frozenset[Finding]
    warnings: frozenset[Finding]
    other: tuple[str, ...]
    """What else it finds wrong: schema, admission, and what the object becomes."""

    refused: bool
    """Whether the schema, a rule of a CustomResourceDefinition or a policy refuses it."""

    rules: frozenset[str]
    """Ids of all rules that it names."""


def checked(
    program: Callable[[], Path],
    reviewed: Sequence[Reviewed],
    stage: Stage,
    worlds: Worlds,
    folder: Path,
    shape: frozenset[str],
) -> dict[int, Checked]:
    """Run the check over what was sent, and return what it says by the number of the subject.

    Parameters
    ----------
    program
        Returns the ``opa`` program.
    reviewed
        Creations by a user without rights of the platform.
    stage, worlds
        Where they live.
    folder
        An empty folder.
    shape
        Ids of the rules that CustomResourceDefinitions carry.
    """
    found: dict[int, Checked] = {}
    with ExitStack() as stack:
        rule_set = open_rule_set(stack, None, program=program, now=NOW)
        rule_set = replace(rule_set, context=AdmissionContext(stage.settings, stage.exempt, NOW))
        for platform in worlds.platforms:
            part = [each for each in reviewed if each.subject.platform == platform]
            if not part:
                continue
            place = folder / platform
            place.mkdir()
            (place / "world.json").write_text(_list(_context_objects(platform, stage, worlds)))
            (place / "objects.json").write_text(_list(_manifest(each) for each in part))
            report = check_paths(rule_set, [str(place)], stdin=str, strict=True)
            results: dict[str, list[Any]] = {}
            for result in report.findings:
                results.setdefault(result.object, []).append(result)
            for each in part:
                found[each.subject.number] = _checked(each, results, shape)
    return found


def _checked(reviewed: Reviewed, results: Mapping[str, list[Any]], shape: frozenset[str]) -> Checked:
    kind = reviewed.subject.shape["kind"]
    label = f"{kind} {reviewed.namespace}/{reviewed.name}" if reviewed.namespace else f"{kind} {reviewed.name}"
    own = results.get(label, [])
    rules = [result for result in own if result.rule is not None and result.rule not in shape]
    made = [result for name, each in results.items() if name.endswith(f"(from {label})") for result in each]
    rest = [result for result in own if result.rule is None or result.rule in shape]
    return Checked(
        frozenset((result.rule, result.path) for result in rules if result.severity == "error"),
        frozenset((result.rule, result.path) for result in rules if result.severity == "warning"),
        tuple(f"{result.severity} {result.object} {result.path} {result.message}" for result in (*rest, *made)),
        any(result.severity == "error" for result in own),
        frozenset(result.rule for result in own if result.rule is not None),
    )


def _manifest(reviewed: Reviewed) -> dict[str, Any]:
    assert reviewed.sent is not None
    return {**reviewed.sent, "metadata": {**reviewed.sent["metadata"], "namespace": reviewed.namespace}}


def _context_objects(platform: str, stage: Stage, worlds: Worlds) -> Iterator[dict[str, Any]]:
    spec = worlds.platforms[platform]
    if spec is not None:
        yield {"apiVersion": PLATFORM_API_VERSION, "kind": "Platform", "metadata": {"name": "platform"}, "spec": spec}
    for home in worlds.homes.values():
        name = stage.namespace(home.name)
        labels = _labels(home.name, worlds)
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        if home.policy is not None:
            metadata = {"name": "tenant", "namespace": name}
            yield {
                "apiVersion": PLATFORM_API_VERSION,
                "kind": "TenantPolicy",
                "metadata": metadata,
                "spec": home.policy,
            }


def _list(bodies: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
