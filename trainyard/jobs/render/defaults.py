"""Defaulting of a TrainJob: notation of its values, timestamps of runtime patches, number of processes per node.

Clients of Trainer v2.2 and later parse numProcPerNode as a number and fail on a list that contains one TrainJob with
text. The words of older versions (auto, cpu, gpu) are therefore accepted and replaced; the stored field is a number or
unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from trainyard.api import Body, Runtime
from trainyard.api.constants import ANCESTOR_LABEL, CONTAINER_NODE, TRAINER
from trainyard.api.structural import schema_violations
from trainyard.jobs.render.devices import counted_resources, cpu_count, gpu_count
from trainyard.jobs.render.frameworks import frameworks_of
from trainyard.jobs.render.merge import merge_resources
from trainyard.jobs.render.pod_editing import copied
from trainyard.jobs.render.shape import RESOURCES
from trainyard.jobs.render.typed_clients import normalized

_AUTO: Final = "auto"
_CPU: Final = "cpu"
_GPU: Final = "gpu"
_WORDS: Final = frozenset({_AUTO, _CPU, _GPU})
_MAX_PROCESSES: Final = 2**31 - 1
_FIELD: Final = "numProcPerNode"


def defaulted(
    train_job: Mapping[str, Any], old: Mapping[str, Any] | None, now: str, runtime: Runtime | None = None
) -> Body:
    """Return a TrainJob with its defaults; the input is not changed.

    Operates on plain data; malformed fields are kept for schema validation to reject.

    Parameters
    ----------
    train_job
        The TrainJob as submitted.
    old
        The stored TrainJob, on an update.
    now
        Current time, RFC 3339.
    runtime
        The referenced runtime; None: it does not exist. Required if :func:`wants_runtime` is true.
    """
    train_job = normalized(dict(train_job), old)
    result = dict(train_job)
    patches = _patches(train_job)
    if patches:
        stored = {_manager(entry): entry for entry in _patches(old or {}) if isinstance(entry, dict)}
        stamped = [
            _stamped(entry, stored.get(_manager(entry)), now) if isinstance(entry, dict) else entry for entry in patches
        ]
        result["spec"] = {**train_job["spec"], "runtimePatches": stamped}
    trainer = _trainer(train_job)
    if isinstance(trainer.get(_FIELD), str):
        result["spec"] = {**result["spec"], "trainer": _with_process_count(trainer, _trainer(old or {}), runtime)}
    return result


def wants_runtime(train_job: Mapping[str, Any]) -> bool:
    """Return whether the defaults of a TrainJob depend on its runtime."""
    word, reference = _trainer(train_job).get(_FIELD), _at(train_job, "spec", "runtimeRef")
    named = isinstance(reference, dict) and all(isinstance(value, str) for value in reference.values())
    return named and isinstance(word, str) and word in _WORDS


def _runtime_resources(runtime: Runtime) -> Body:
    """Return the resources of a runtime's training container; empty if missing or malformed."""
    template = runtime.spec.template if runtime.spec else None
    spec = copied(template.spec) if template else None
    for job in _each(spec, "replicatedJobs"):
        labels = _at(job, "template", "metadata", "labels")
        if isinstance(labels, dict) and labels.get(ANCESTOR_LABEL) == TRAINER:
            containers = _each(_at(job, "template", "spec", "template", "spec"), "containers")
            container = next((entry for entry in containers if entry.get("name") == CONTAINER_NODE), {})
            return _valid_resources(container.get("resources"))
    return {}


def _with_process_count(trainer: Body, stored: Body, runtime: Runtime | None) -> Body:
    """Replace a word or a quoted number with a number.

    On an update, a word resolves to the stored number, so that applying the same manifest again changes nothing. Text
    that is stored, by Kubeflow Trainer before v2.2, is kept: the field is immutable. auto without a runtime is removed:
    it is the default of an unset number.
    """
    given = trainer[_FIELD]
    if given == stored.get(_FIELD):
        return trainer
    if given in _WORDS and stored:
        count = stored.get(_FIELD)
    elif given == _AUTO and runtime is None:
        count = None
    else:
        count = _number(given) if given not in _WORDS else _processes(given, trainer, runtime)
        count = given if count is None else count
    rest = {name: value for name, value in trainer.items() if name != _FIELD}
    return rest if count is None else {**rest, _FIELD: count}


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    return int(text) if 1 <= int(text) <= _MAX_PROCESSES else None


def _processes(word: str, trainer: Body, runtime: Runtime | None) -> int | None:
    """Return the number of processes of a word, or None if the word cannot be resolved."""
    if runtime is None or any(framework.launched for framework in frameworks_of(runtime)):
        return None
    requested = _valid_resources(copied(trainer.get("resourcesPerNode")))
    resources = counted_resources(merge_resources(_runtime_resources(runtime), requested), requested)
    gpus = min(int(gpu_count(resources)), _MAX_PROCESSES)
    cores = min(max(1, ceil(cpu_count(resources))), _MAX_PROCESSES)
    if word == _GPU:
        return gpus or None
    return cores if word == _CPU else gpus or cores


def _valid_resources(resources: Any) -> Body:
    """Return compute resources if they match their schema, otherwise nothing."""
    valid = isinstance(resources, dict) and next(schema_violations(resources, RESOURCES, ""), None) is None
    return resources if valid else {}


def _trainer(train_job: Mapping[str, Any]) -> Body:
    trainer = _at(train_job, "spec", "trainer")
    return trainer if isinstance(trainer, dict) else {}


def _at(body: Any, *names: str) -> Any:
    for name in names:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def _each(body: Any, name: str) -> list[Body]:
    items = _at(body, name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _manager(patch: Body) -> str:
    manager = patch.get("manager")
    return manager if isinstance(manager, str) else ""


def _patches(train_job: Mapping[str, Any]) -> list[Any]:
    patches = _at(train_job, "spec", "runtimePatches")
    return patches if isinstance(patches, list) else []


def _stamped(patch: Body, stored: Body | None, now: str) -> Body:
    if stored is None:
        return patch if patch.get("time") is not None else {**patch, "time": now}
    unchanged = _content(patch) == _content(stored)
    time = stored.get("time") if unchanged else now
    without = {name: value for name, value in patch.items() if name != "time"}
    return {**without, "time": time} if time is not None else without


def _content(patch: Body) -> Any:
    return copied({name: value for name, value in patch.items() if name != "time"})
