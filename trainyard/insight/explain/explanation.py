"""Explanation of one job: why it waits or failed, in one paragraph with the numbers and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from trainyard.checks.printable_text import printable
from trainyard.cluster_state.body_fields import Body, name_of, namespace_of
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Kind, Observed, resource_of
from trainyard.errors import TrainyardError
from trainyard.insight.explain.cause import Found
from trainyard.insight.explain.causes import FAMILIES
from trainyard.insight.explain.chain import Link, chain_of
from trainyard.insight.explain.job_state import ClusterView, ExplainedState, JobState
from trainyard.insight.explain.named_objects import NAMED_KINDS, find_named, named_kinds, short_kind
from trainyard.insight.explain.ranking import ranked

UNKNOWN: Final = "unknown"
"""Cause of a job that waits or failed for a reason that no declared cause covers."""

_EXPLAINED: Final = frozenset({ExplainedState.WAITING, ExplainedState.SUSPENDED, ExplainedState.FAILED})


@dataclass(frozen=True)
class Explanation:
    """Why a job waits or failed.

    Parameters
    ----------
    job
        Namespace and name of the object that was named.
    kind
        Its kind.
    state
        Its state.
    causes
        Causes that apply, the most decisive first.
    chain
        What was looked at.
    unread
        Kinds that could not be read.
    """

    job: str
    kind: str
    state: ExplainedState
    causes: tuple[Found, ...]
    chain: tuple[Link, ...]
    unread: tuple[str, ...] = ()

    @property
    def cause(self) -> str | None:
        """Identifier of the first cause, or None if it needs none, as the job runs or completed."""
        if self.causes:
            return self.causes[0].cause.id
        return UNKNOWN if self.state in _EXPLAINED else None

    @property
    def message(self) -> str:
        """The paragraph, without the fix."""
        start = f"{self.kind} {self.job} {_VERBS[self.state]}"
        if self.causes:
            return f"{start}: {self.causes[0].message}."
        if self.cause is None:
            return f"{start}."
        looked = ", ".join(link.step for link in self.chain)
        return f"{start}, and none of the known causes applies. Looked at: {looked}."

    @property
    def fix(self) -> str:
        """What to do; empty: nothing."""
        if self.causes:
            return self.causes[0].fix
        if self.cause is None:
            return ""
        if self.unread:
            return f"ask a person who may list {', '.join(self.unread)} in all namespaces to run the same command"
        return "run the command again in a minute; then give the platform team a file of `trainyard snapshot save`"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "job": self.job,
            "state": self.state.value,
            "cause": self.cause,
            "numbers": dict(self.causes[0].numbers) if self.causes else {},
            "fix": self.fix or None,
            "chain": [link.as_json() for link in self.chain],
            "others": [found.as_json() for found in self.causes[1:]],
            "kind": self.kind,
            "message": self.message,
            "unread": list(self.unread),
        }


_VERBS: Final = {
    ExplainedState.WAITING: "waits",
    ExplainedState.STARTING: "starts",
    ExplainedState.RUNNING: "runs",
    ExplainedState.SUSPENDED: "is suspended",
    ExplainedState.COMPLETE: "is complete",
    ExplainedState.FAILED: "failed",
}


def explain(observed: Observed, job: str, namespace: str = "default") -> Explanation:
    """Return why a job waits or failed.

    Parameters
    ----------
    observed
        Recorded state of its cluster.
    job
        ``NAME``, or ``KIND/NAME`` with trainjob, jobset, vcjob, job or pod; a name alone is looked up in this order.
    namespace
        Its namespace.

    Raises
    ------
    TrainyardError
        It does not exist, or may not be read.
    """
    view = ClusterView(observed)
    named = find_named(view.index, job, namespace)
    if named is None:
        message, fix = _missing(view, job, namespace)
        raise TrainyardError(printable(message), fix=printable(fix))
    return explain_object(view, named)


def explain_object(view: ClusterView, named: Body) -> Explanation:
    """Return why one of the jobs of a cluster waits or failed.

    Parameters
    ----------
    view
        The cluster, which may serve many explanations.
    named
        Its TrainJob, JobSet, Volcano Job, Job or Pod.
    """
    job_state = JobState(view, named)
    found = ranked(each for family in FAMILIES.values() for each in family.find(job_state))
    return Explanation(
        job=f"{namespace_of(named) or 'default'}/{name_of(named)}",
        kind=short_kind(kind_of(named)),
        state=job_state.state,
        causes=tuple(found),
        chain=tuple(chain_of(job_state)),
        unread=tuple(sorted(short_kind(kind) for kind in view.index.observed.unread if kind in _NEEDED)),
    )


_NEEDED: Final = frozenset(
    {
        *(Kind.NODE, Kind.QUEUE, Kind.POD_GROUP, Kind.POD, Kind.HYPER_NODE, Kind.EVENT),
        *(Kind.TRAIN_JOB, Kind.JOB_SET, Kind.JOB, Kind.WORKLOAD, Kind.CLAIM),
    }
)


def _missing(view: ClusterView, job: str, namespace: str) -> tuple[str, str]:
    """Return why a job was not found, and what to do."""
    name = job.rpartition("/")[2]
    absent = f"{job} does not exist in namespace {namespace}"
    kinds = named_kinds(job)
    if not kinds:
        return absent, f"write {', '.join(f'{kind}/NAME' for kind in NAMED_KINDS)}, and the namespace with -n"
    elsewhere = sorted(
        {
            namespace_of(body)
            for kind in NAMED_KINDS.values()
            for body in view.index.of(kind)
            if name_of(body) == name and namespace_of(body) != namespace
        }
    )
    if elsewhere:
        return absent, f"use -n {elsewhere[0]}"
    unread = [kind for kind in kinds if not view.index.reads(kind, namespace)]
    if unread and view.index.observed.is_timed:
        names = ", ".join(sorted({short_kind(kind) for kind in unread}))
        resources = ", ".join(sorted(resource_of(kind) for kind in unread))
        message = f"{job} may not be read in namespace {namespace}: {names} (no permission)"
        return message, f"ask for list on {resources} in namespace {namespace}"
    return absent, f"see `kubectl get trainjobs,jobsets -n {namespace}`, or set the namespace with -n"


def as_text(explanation: Explanation) -> str:
    """Return an explanation for people: the paragraph, the fix, the chain, and further causes."""
    lines = [explanation.message]
    if explanation.fix:
        lines.append(f"Fix: {explanation.fix}.")
    if explanation.causes[1:]:
        lines += ["", "Also:", *(f"- {found.message} (fix: {found.fix})" for found in explanation.causes[1:])]
    lines += ["", "Looked at:", *_table(explanation.chain)]
    if explanation.unread:
        lines += ["", f"Not read in all namespaces (no permission): {', '.join(explanation.unread)}"]
    return "\n".join(map(printable, lines))


def _table(chain: Iterable[Link]) -> list[str]:
    rows = list(chain)
    width = max((len(row.step) for row in rows), default=0)
    return [f"  {row.step:{width}}  {row.object + ': ' if row.object else ''}{row.state}" for row in rows]
