"""What goes wrong for a while: refusals by kind and verb, and everything a network does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.simulation.api_server import Call, NotServedError, RefusedError
from tests.simulation.world import World


@dataclass(frozen=True)
class Fault:
    """One cause that begins and ends.

    Parameters
    ----------
    set
        Called with the world and true at the beginning, false at the end.
    stops_suspend
        Whether it may keep a JobSet from being suspended: only JobSet's own webhook and a lost connection may.
    stops_status
        Whether it may keep the status of a TrainJob from being written.
    keeps_job_sets
        Whether it keeps JobSets from being deleted, and nothing else from being done.
    """

    set: Callable[[World, bool], None]
    stops_suspend: bool = False
    stops_status: bool = False
    keeps_job_sets: bool = False

    @property
    def stops_delete(self) -> bool:
        """Whether it may keep a JobSet from being deleted."""
        return self.keeps_job_sets or self.stops_suspend or self.stops_status


def _refusing(name: str, error: RefusedError, applies: Callable[[Call], bool]) -> Callable[[World, bool], None]:
    def change(world: World, active: bool) -> None:
        if active:
            world.network.refusals[name] = lambda call: error if applies(call) else None
        else:
            world.network.refusals.pop(name, None)

    return change


def _writes(plural: str, *verbs: str, subresource: str | None = "") -> Callable[[Call], bool]:
    def applies(call: Call) -> bool:
        same = subresource is None or call.subresource == subresource
        return call.kind.resource.plural == plural and call.verb in verbs and same

    return applies


def _link(name: str, faulty: object, healthy: object) -> Callable[[World, bool], None]:
    def change(world: World, active: bool) -> None:
        for process in world.processes:
            setattr(process.link, name, faulty if active else healthy)

    return change


def _job_set_webhook(world: World, active: bool) -> None:
    world.job_set_webhook.away = active


def _job_set_webhook_hangs(world: World, active: bool) -> None:
    world.job_set_webhook.hangs = active


def _pod_group_webhook_hangs(world: World, active: bool) -> None:
    world.pod_group_webhook.hangs = active


def _unlabeling(world: World, active: bool) -> None:
    world.job_set_webhook.removes_label = active


def _pod_group_webhook(world: World, active: bool) -> None:
    world.pod_group_webhook.away = active


def _queue(world: World, active: bool) -> None:
    world.open_queue(not active)


def _down(world: World, active: bool) -> None:
    world.network.down = active
    if active:
        world.network.cut_watches()


def _forbidden(what: str) -> RefusedError:
    return RefusedError(403, "Forbidden", f"{what} is forbidden: ValidatingAdmissionPolicy denied request")


_THROTTLED = RefusedError(429, "TooManyRequests", "too many requests, please try again later", retry_after=1)
_INVALID = RefusedError(422, "Invalid", "ValidatingAdmissionPolicy 'x' denied request: failed to configure policy")
_BROKEN = RefusedError(500, "InternalError", "Internal error occurred: failed calling webhook: connection refused")

FAULTS: Mapping[str, Fault] = {
    "JobSet's webhook is away": Fault(_job_set_webhook, stops_suspend=True),
    "the label is removed": Fault(_unlabeling),
    "Volcano's webhook is away": Fault(_pod_group_webhook),
    "JobSet's webhook hangs": Fault(_job_set_webhook_hangs, stops_suspend=True),
    "Volcano's webhook hangs": Fault(_pod_group_webhook_hangs),
    "the queue is closed": Fault(_queue),
    "JobSets cannot be created": Fault(_refusing("job sets", _forbidden("JobSet"), _writes("jobsets", "create"))),
    "JobSets cannot be deleted": Fault(
        _refusing("deletes", _BROKEN, _writes("jobsets", "delete")), keeps_job_sets=True
    ),
    "JobSets are not served": Fault(
        _refusing("served", NotServedError(), lambda call: call.kind.resource.plural == "jobsets"), stops_suspend=True
    ),
    "a proxy answers reads": Fault(
        _refusing("proxy", NotServedError(), lambda call: call.verb == "get" and call.kind.resource.plural != "leases"),
        stops_suspend=True,
    ),
    "PodGroups cannot be written": Fault(
        _refusing("pod groups", _INVALID, _writes("podgroups", "create", "patch", "update", "delete"))
    ),
    "ConfigMaps cannot be created": Fault(_refusing("maps", _forbidden("ConfigMap"), _writes("configmaps", "create"))),
    "ConfigMaps cannot be read": Fault(_refusing("reads", _BROKEN, _writes("configmaps", "get"))),
    "statuses cannot be written": Fault(
        _refusing("statuses", _BROKEN, _writes("trainjobs", "patch", "update", subresource="status")), stops_status=True
    ),
    "events cannot be written": Fault(_refusing("events", _forbidden("Event"), _writes("events", "create", "patch"))),
    "429 for everything": Fault(_refusing("429", _THROTTLED, lambda call: True), stops_suspend=True, stops_status=True),
    "the API server is down": Fault(_down, stops_suspend=True, stops_status=True),
    "answers are lost": Fault(_link("loss", 0.4, 0.0), stops_suspend=True, stops_status=True),
    "writes arrive late": Fault(_link("late", 0.3, 0.0), stops_suspend=True, stops_status=True),
    "the network is slow": Fault(_link("latency", (0.2, 6.0), (0.001, 0.03)), stops_suspend=True, stops_status=True),
    "the network is silent": Fault(_link("cut", True, False), stops_suspend=True, stops_status=True),
    "watches are behind": Fault(
        _link("watch_delay", (2.0, 25.0), (0.001, 0.05)), stops_suspend=True, stops_status=True
    ),
}
