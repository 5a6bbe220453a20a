"""Table of jobs: filtered, sorted, one page of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard.insight.console.views.job_page import TimelineEntry, changes_of
from trainyard.insight.console.views.job_timeline import JobTimeline, job_timeline
from trainyard.insight.console.views.platform_view import JobRow, PlatformView, Reason, age_text, is_device
from trainyard.insight.explain.job_state import ExplainedState, JobState

PAGE: Final = 100
"""Jobs on one page."""

_ORDER: Final = {state: position for position, state in enumerate(ExplainedState)}
_NEVER: Final = float("-inf")


def _device_count(row: JobRow) -> int:
    return sum(amount for name, amount in row.amounts.items() if is_device(name))


SORTS: Final[Mapping[str, Callable[[JobRow], Any]]] = {
    "name": lambda row: (row.namespace, row.name),
    "state": lambda row: (_ORDER[row.state], row.queue, row.place, row.namespace, row.name),
    "queue": lambda row: (row.queue, row.place, row.namespace, row.name),
    "devices": lambda row: (-_device_count(row), row.namespace, row.name),
    "age": lambda row: (row.created.timestamp() if row.created else _NEVER, row.namespace, row.name),
}
"""Sort keys by name."""


@dataclass(frozen=True)
class JobQuery:
    """Selection of jobs.

    Parameters
    ----------
    words
        Text that name, namespace, queue, runtime or reason contains; each word must occur.
    state, queue, namespace, cause
        Exact values; empty: all.
    sort
        One of `SORTS`.
    page
        Page, from 1.
    """

    words: str = ""
    state: str = ""
    queue: str = ""
    namespace: str = ""
    cause: str = ""
    sort: str = "state"
    page: int = 1

    @classmethod
    def of(cls, values: Mapping[str, str]) -> JobQuery:
        """Return the selection of a query string; invalid values are ignored."""
        number = values.get("page", "")
        return cls(
            words=values.get("words", "")[:200],
            state=values.get("state", ""),
            queue=values.get("queue", ""),
            namespace=values.get("namespace", ""),
            cause=values.get("cause", ""),
            sort=values["sort"] if values.get("sort") in SORTS else "state",
            page=max(1, int(number)) if number.isascii() and number.isdecimal() and len(number) < 7 else 1,
        )

    def parameters(self, **changes: object) -> dict[str, str]:
        """Return the query string of a changed selection, without defaults."""
        values = {**self.__dict__, **changes}
        defaults = JobQuery().__dict__
        return {name: str(value) for name, value in values.items() if value != defaults[name]}


@dataclass(frozen=True)
class ListedJob:
    """A job with its texts."""

    row: JobRow
    reason: Reason | None
    age: str
    phases: JobTimeline


@dataclass(frozen=True)
class JobList:
    """One page of the jobs.

    Parameters
    ----------
    jobs
        Those of the page.
    found, whole
        How many are selected, and how many there are.
    pages
        Number of pages.
    query
        The selection, with a page that exists.
    states, queues, namespaces, causes
        Values to select; states with their numbers, causes with their titles.
    """

    jobs: tuple[ListedJob, ...]
    found: int
    whole: int
    pages: int
    query: JobQuery
    states: tuple[tuple[str, int], ...]
    queues: tuple[str, ...]
    namespaces: tuple[str, ...]
    causes: tuple[tuple[str, str], ...]


Histories = Callable[[Collection[str]], Mapping[str, tuple[TimelineEntry, ...]]]


def job_list(view: PlatformView, query: JobQuery, histories: Histories = lambda _: {}) -> JobList:
    """Return a page of the selected jobs.

    Parameters
    ----------
    view
        The platform.
    query
        The selection.
    histories
        Returns the changes of state that were seen, by `JobRow.identity`.
    """
    words = query.words.lower().split()
    chosen = [row for row in view.jobs if _matches(view, row, query) and _contains(view, row, words)]
    chosen.sort(key=SORTS[query.sort])
    pages = max(1, -(-len(chosen) // PAGE))
    page = min(query.page, pages)
    shown = chosen[(page - 1) * PAGE : page * PAGE]
    counts = Counter(row.state for row in view.jobs)
    seen = histories({row.identity for row in shown})
    return JobList(
        jobs=tuple(_listed(view, row, seen.get(row.identity, ())) for row in shown),
        found=len(chosen),
        whole=len(view.jobs),
        pages=pages,
        query=replace(query, page=page),
        states=tuple((state.value, counts[state]) for state in ExplainedState if counts[state]),
        queues=tuple(sorted({row.queue for row in view.jobs} - {""})),
        namespaces=tuple(sorted({row.namespace for row in view.jobs})),
        causes=tuple(
            sorted({(each.cause, each.title) for each in view.reasons.copy().values()}, key=lambda each: each[1])
        ),
    )


def _listed(view: PlatformView, row: JobRow, history: tuple[TimelineEntry, ...]) -> ListedJob:
    phases = job_timeline(JobState(view.cluster, view.roots[row.key]), view.now, changes_of(history))
    return ListedJob(row, view.reason(row), age_text(view.now, row.created), phases)


def _matches(view: PlatformView, row: JobRow, query: JobQuery) -> bool:
    reason = view.reason(row) if query.cause else None
    if query.cause and (reason is None or reason.cause != query.cause):
        return False
    chosen = ((query.state, row.state.value), (query.queue, row.queue), (query.namespace, row.namespace))
    return all(not wanted or wanted == value for wanted, value in chosen)


def _contains(view: PlatformView, row: JobRow, words: list[str]) -> bool:
    if not words:
        return True
    reason = view.reason(row)
    texts = (row.name, row.namespace, row.queue, row.runtime, f"{reason.title} {reason.cause}" if reason else "")
    everything = " ".join(texts).lower()
    return all(word in everything for word in words)
