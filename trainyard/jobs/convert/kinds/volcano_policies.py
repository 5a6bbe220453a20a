"""Lifecycle policies of Volcano Jobs: effect of an event on a pod, a task or the whole job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trainyard.api import Body
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.restarts import NEVER, adapt_restart_policy, note_limit
from trainyard.jobs.convert.source import LegacySource

_RETRIES: Final = 3
"""Volcano's default of maxRetry."""
_FAILURES: Final = ("PodFailed", "PodEvicted")
_EVENTS: Final = (*_FAILURES, "TaskFailed", "*")
_COMPLETED: Final = "TaskCompleted"
_COMPLETE: Final = "CompleteJob"
_ENDS: Final = ("AbortJob", "TerminateJob")
_FAILURE_FIX: Final = "set failurePolicy or podFailurePolicy in the runtime's template"


def apply_policies(draft: Draft, tasks: Mapping[str, Part]) -> None:
    """Read the policies of the job and its tasks, and the number of retries.

    Parameters
    ----------
    tasks
        Parts by legacy task name; a task merged into another part refers to that part.
    """
    source = draft.source
    limit = source.integer("spec.maxRetry")
    policies = _Policies(draft, _RETRIES if limit is None else limit)
    for part in draft.parts:
        adapt_restart_policy(source, part, fails=True)
    for index in range(source.count("spec.policies")):
        policies.take(f"spec.policies[{index}]", None)
    gathered = any(task not in draft.parts for task in tasks.values())
    for task in tasks.values():
        part = task if task in draft.parts else draft.trainer
        retries = source.integer(f"{task.role}.maxRetry")
        if retries is not None:
            part.job["backoffLimit"] = retries
            source.same(f"{task.role}.maxRetry", "backoffLimit of the Job")
        for index in range(source.count(f"{task.role}.policies")):
            policies.take(f"{task.role}.policies[{index}]", part, leads=gathered and task is draft.trainer)
    for part in draft.parts:
        if part.pod.get("restartPolicy") != NEVER:
            note_limit(source, part, "set maxRetry of the task")
    if policies.completing:
        draft.succeed_with(*dict.fromkeys(policies.completing))
        if len(set(policies.completing)) > 1:
            # Each of these tasks completes the job by itself.
            draft.job_set["successPolicy"]["operator"] = "Any"
    if "failurePolicy" in draft.job_set:
        source.same("spec.maxRetry", "failurePolicy.maxRestarts")
    elif limit is not None:
        retried = [part for part in draft.parts if part.job.get("backoffLimit") == limit]
        message = "backoffLimit of the Jobs" if retried else "has no effect: nothing restarts the job"
        (source.same if retried else source.changed)("spec.maxRetry", message)


def completes_job(source: LegacySource, part: Part) -> bool:
    """Return whether a policy of a task completes the job with it."""
    path = f"{part.role}.policies"
    for index in range(source.count(path)):
        events = [source.peek(f"{path}[{index}].event"), *(source.peek(f"{path}[{index}].events") or ())]
        if _COMPLETED in events and source.peek(f"{path}[{index}].action") == _COMPLETE:
            return True
    return False


@dataclass
class _Policies:
    """Accumulates the effects of policies.

    Parameters
    ----------
    limit
        Number of retries.
    completing
        Names of the parts whose completion ends the job.
    """

    draft: Draft
    limit: int
    completing: list[str] = field(default_factory=list)

    def take(self, path: str, part: Part | None, *, leads: bool = False) -> None:
        """Read one policy of a part, or of the whole job; all its fields are marked as read.

        Parameters
        ----------
        leads
            Whether the task is only the first pod of its part.
        """
        source = self.draft.source
        policy = source.mapping(path)
        action = source.text(f"{path}.action") or ""
        event = source.text(f"{path}.event")
        events = [*([event] if event else ()), *source.items(f"{path}.events", str)]
        code = source.integer(f"{path}.exitCode")
        source.lost(f"{path}.timeout", "acts at once: nothing waits before a policy acts", _FAILURE_FIX)
        if code is not None:
            _by_code(self.draft, path, part, action, code)
            return
        left = [each for each in events if not self._acts(action, each, part, leads=leads)]
        if left:
            message = f"{action or 'nothing'} on {', '.join(left)} is not done"
            source.lost(path, message, _FAILURE_FIX)
        elif policy:
            source.changed(path, _became(action))

    def _acts(self, action: str, event: str, part: Part | None, *, leads: bool) -> bool:
        """Apply an action on an event, and return whether it is supported."""
        parts = self.draft.parts if part is None else [part]
        if event == _COMPLETED and action == _COMPLETE:
            self.completing += [each.name for each in parts]
            if leads:
                parts[0].job["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
            return True
        if event not in _EVENTS:
            return False
        if action == "RestartJob":
            self.draft.restart(self.limit)
        elif action in ("RestartPod", "RestartTask"):
            for each in parts:
                each.job["backoffLimit"] = self.limit
        elif action in _ENDS:
            for each in parts:
                if each.pod.get("restartPolicy") == NEVER:
                    each.job["backoffLimit"] = 0
        return action in ("RestartJob", "RestartPod", *_ENDS)


def _became(action: str) -> str:
    if action == "RestartJob":
        return "failurePolicy.maxRestarts: all pods are made again when a Job has failed"
    if action == "RestartPod":
        return "backoffLimit of the Job: a failed pod is made again"
    if action == _COMPLETE:
        return "successPolicy: the job ends with these pods"
    return "a Job that has failed fails the job; resume it as a new TrainJob"


def _by_code(draft: Draft, path: str, part: Part | None, action: str, code: int) -> None:
    """Fail the job immediately on an exit code; a Job supports no other action."""
    source = draft.source
    parts = draft.parts if part is None else [part]
    if action not in _ENDS or any(each.pod.get("restartPolicy") != NEVER for each in parts) or code == 0:
        message = f"{action or 'nothing'} on exit code {code} is not done: a Job can only fail on one, without restarts"
        source.lost(path, message, _FAILURE_FIX)
        return
    for each in parts:
        rule: Body = {
            "action": "FailJob",
            "onExitCodes": {"containerName": each.main, "operator": "In", "values": [code]},
        }
        each.job.setdefault("podFailurePolicy", {"rules": []})["rules"].append(rule)
    source.changed(path, "podFailurePolicy of the Job: the exit code fails it at once")
