"""Health of the platform on one screen: programs, certificates, devices, and waiting gangs by reason."""

from __future__ import annotations

import base64
import binascii
import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from trainyard.checks.report.text import counted
from trainyard.cluster_state.body_fields import Body, name_of, namespace_of, sequence, text, whole
from trainyard.cluster_state.observed import Kind
from trainyard.cluster_state.platform_programs import DEPLOYMENTS
from trainyard.insight.console.views.platform_view import Devices, JobRow, PlatformView
from trainyard.insight.explain.causes.controllers import fault_of
from trainyard.insight.explain.job_state import ExplainedState
from trainyard.insight.explain.named_objects import NAMED_KINDS

WEBHOOK_KINDS: Final = tuple(
    f"{kind}.admissionregistration.k8s.io"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
"""Kinds whose caBundles have the certificate authorities."""
_SOON: Final = 14
"""Days before the end of a certificate from which on it is an issue."""
_SHOWN: Final = 20
_MAX_BUNDLE: Final = 1 << 20


@dataclass(frozen=True)
class ProgramHealth:
    """A program of the platform: its Deployment, how many replicas are ready, and why it does not run, if so."""

    name: str
    namespace: str
    ready: int
    replicas: int
    fault: str


@dataclass(frozen=True)
class WebhookAuthority:
    """Certificate authority of webhooks.

    Parameters
    ----------
    name
        Common name, and the first webhook configurations that trust it.
    days
        Whole days until the certificate ends, negative after its end; of a successor, if there is one.
    configurations
        Webhook configurations that trust it.
    ended
        Whether it has ended.
    """

    name: str
    days: int
    configurations: tuple[str, ...]
    ended: bool = False

    @property
    def ends_soon(self) -> bool:
        """Whether it ends in two weeks."""
        return self.days < _SOON

    @property
    def end(self) -> str:
        """When it ends, as the end of a sentence."""
        verb = "ended" if self.ended else "ends"
        if not self.days:
            return f"{verb} today"
        return f"{verb} {counted(-self.days, 'day')} ago" if self.ended else f"{verb} in {counted(self.days, 'day')}"


@dataclass(frozen=True)
class WaitReason:
    """Waiting jobs with one reason, and some of them."""

    title: str
    cause: str
    count: int
    jobs: tuple[JobRow, ...]


@dataclass(frozen=True)
class Health:
    """The platform on one screen.

    Parameters
    ----------
    issues
        What is wrong, in short; empty: nothing was found.
    programs
        The programs.
    authorities
        The certificate authorities; None: unknown.
    devices
        Devices by resource.
    nodes, ready, cordoned
        Numbers of nodes.
    states
        Jobs by state.
    waiting
        Waiting jobs by reason, the most frequent first.
    explained, unexplained
        Waiting jobs whose reason is known, and the others.
    unread
        Kinds that could not be read.
    unknown
        Those of nodes, programs and jobs that could not be read, as text.
    """

    issues: tuple[str, ...]
    programs: tuple[ProgramHealth, ...]
    authorities: tuple[WebhookAuthority, ...] | None
    devices: tuple[Devices, ...]
    nodes: int
    ready: int
    cordoned: int
    states: tuple[tuple[str, int], ...]
    waiting: tuple[WaitReason, ...]
    explained: int
    unexplained: int
    unread: tuple[str, ...]
    unknown: Mapping[str, str]


def health(view: PlatformView) -> Health:
    """Return the platform on one screen."""
    programs = tuple(_programs(view))
    known = any(view.index.of(kind) for kind in WEBHOOK_KINDS)
    authorities = tuple(_authorities(view)) if known else None
    nodes = view.nodes.values()
    rows = [row for row in view.jobs if row.state is ExplainedState.WAITING]
    reasons = {row.key: view.reason(row) for row in rows}
    titles = {reason.cause: reason.title for reason in reasons.values() if reason}
    by_cause: dict[str, list[JobRow]] = {}
    for row in rows:
        if reason := reasons[row.key]:
            by_cause.setdefault(reason.cause, []).append(row)
    waiting = [WaitReason(titles[cause], cause, len(found), tuple(found[:3])) for cause, found in by_cause.items()]
    explained = sum(reason is not None for reason in reasons.values())
    states = Counter(row.state for row in view.jobs)
    return Health(
        issues=tuple(_issues(view, programs, authorities or ())),
        programs=programs,
        authorities=authorities,
        devices=tuple(view.devices),
        nodes=len(view.nodes),
        ready=sum(node.ready for node in nodes),
        cordoned=sum(node.cordoned for node in nodes),
        states=tuple((state.value, states[state]) for state in ExplainedState if states[state]),
        waiting=tuple(sorted(waiting, key=lambda each: (-each.count, each.title))),
        explained=explained,
        unexplained=len(rows) - explained,
        unread=tuple(view.unread),
        unknown={
            "nodes": view.unread_of(Kind.NODE),
            "programs": view.unread_of(Kind.DEPLOYMENT),
            "jobs": view.unread_of(*NAMED_KINDS.values()),
        },
    )


def _programs(view: PlatformView) -> Iterator[ProgramHealth]:
    for name in DEPLOYMENTS:
        for body in view.index.of(Kind.DEPLOYMENT):
            if name_of(body) == name:
                namespace = namespace_of(body)
                ready = whole(body, "status", "readyReplicas") or whole(body, "status", "availableReplicas")
                fault = fault_of(view.index, name, namespace, body)
                yield ProgramHealth(name, namespace, ready, whole(body, "spec", "replicas", default=1), fault)


def _issues(
    view: PlatformView, programs: tuple[ProgramHealth, ...], authorities: tuple[WebhookAuthority, ...]
) -> Iterator[str]:
    for program in programs:
        if program.fault:
            yield f"{program.namespace}/{program.name} does not run: {program.fault}"
    if view.index.knows(Kind.DEPLOYMENT):
        present = {program.name for program in programs}
        for name in DEPLOYMENTS:
            if name not in present:
                yield f"Deployment {name} does not exist"
    for authority in authorities:
        if authority.ends_soon:
            yield f"certificate authority {authority.name} {authority.end}"
    if lost := sum(not node.ready for node in view.nodes.values()):
        yield f"{counted(lost, 'node')} not ready"
    if fault := view.cluster.shares.fault:
        yield f"queues: {fault}"


def _authorities(view: PlatformView) -> Iterator[WebhookAuthority]:
    found: dict[tuple[str, datetime.datetime], dict[str, None]] = {}
    for kind in WEBHOOK_KINDS:
        for body in view.index.of(kind):
            for webhook in sequence(body, "webhooks"):
                newest = _newest(text(webhook, "clientConfig", "caBundle"))
                if newest is not None:
                    found.setdefault(newest, {})[name_of(body)] = None
    for (name, end), configurations in sorted(found.items(), key=lambda pair: pair[0][1])[:_SHOWN]:
        days = int((end - view.now) / datetime.timedelta(days=1))
        yield WebhookAuthority(name, days, tuple(sorted(configurations)), ended=end <= view.now)


def _newest(bundle: str) -> tuple[str, datetime.datetime] | None:
    """Return name and end of the certificate of a bundle that ends last, or None if there is none."""
    if not bundle or len(bundle) > _MAX_BUNDLE:
        return None
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error):
        return None
    newest = max(certificates, key=lambda each: each.not_valid_after_utc)
    names = newest.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return (str(names[0].value) if names else "without a name"), newest.not_valid_after_utc


def webhook_body(body: Body) -> Body:
    """Return what the page reads of a webhook configuration: its name and the caBundles."""
    webhooks = [
        {"clientConfig": {"caBundle": text(each, "clientConfig", "caBundle")}} for each in sequence(body, "webhooks")
    ]
    return {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "metadata": {
            "name": name_of(body),
            "resourceVersion": text(body, "metadata", "resourceVersion"),
        },
        "webhooks": webhooks,
    }
