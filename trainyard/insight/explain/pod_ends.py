"""Failed ends of pods: containers with an exit code, and pods that their node rejected or evicted, without a log."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trainyard.cluster_state.body_fields import Body, mapping, name_of, sequence, text, time, whole

_MAXIMUM: Final = 300
_UNKNOWN: Final = datetime.datetime.min.replace(tzinfo=datetime.UTC)
"""Time of what has none: everything else is newer."""
_OWN_LIMIT: Final = "DeadlineExceeded"
"""Reason of a pod that its own activeDeadlineSeconds ended."""


@dataclass(frozen=True)
class PodEnd:
    """A failed end of a container, or of a whole pod.

    Parameters
    ----------
    when
        When it ended.
    pod
        Name of the pod.
    message
        What ended, and how.
    short
        How it ended.
    remedy
        What to do: read the log, or ask about the node.
    """

    when: datetime.datetime
    pod: str
    message: str
    short: str
    remedy: str


def ends_of(pod: Body, *, previous: bool = False) -> Iterator[PodEnd]:
    """Yield how a pod failed; the reason of the kubelet for the whole pod precedes what its containers say.

    Parameters
    ----------
    previous
        Whether its containers may run again.
    """
    name, home = name_of(pod), text(pod, "metadata", "namespace") or "default"
    created = time(pod, "metadata", "creationTimestamp") or _UNKNOWN
    statuses = [
        *((each, f" -c {text(each, 'name')}") for each in sequence(pod, "status", "initContainerStatuses")),
        *((each, "") for each in sequence(pod, "status", "containerStatuses")),
    ]
    ended = [
        (mapping(each, "state", "terminated") or mapping(each, "lastState", "terminated"), each, option)
        for each, option in statuses
    ]
    reason = text(pod, "status", "reason")
    if text(pod, "status", "phase") == "Failed" and reason:
        said = text(pod, "status", "message")[:_MAXIMUM]
        when = max((time(last, "finishedAt") or created for last, _, _ in ended), default=created)
        short = reason + (f": {said}" if said else "")
        node = text(pod, "spec", "nodeName") or "its node"
        ask = "use a longer activeDeadlineSeconds" if reason == _OWN_LIMIT else f"ask the platform team about {node}"
        yield PodEnd(when, name, f"pod {name} failed ({short})", short, ask)
        return
    for last, status, option in ended:
        if code := whole(last, "exitCode"):
            why = text(last, "reason")
            kind = "init container" if option else "container"
            log = f"kubectl logs -n {home} {name}{option}{' --previous' * previous}"
            short = f"exit code {code}" + (f" ({why})" if why else "")
            message = f"{kind} {text(status, 'name')} of pod {name} ended with {short}"
            yield PodEnd(time(last, "finishedAt") or _UNKNOWN, name, message, short, f"read its log: `{log}`")
