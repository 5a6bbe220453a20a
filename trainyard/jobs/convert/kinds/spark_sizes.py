"""Sizes and number of Spark's pods, as Spark on Kubernetes computes them from an application's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Final

from trainyard import quantity
from trainyard.api import Body
from trainyard.jobs.convert.kinds.spark_settings import MEBIBYTE, SparkSettings, is_true

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
_DEFAULT_GIB: Final = 1
_CORES_DEFAULT: Final = 1
_LEAST_OVERHEAD: Final = 384
_FACTOR_OF_JVM: Final = 0.1
_FACTOR_OF_OTHERS: Final = 0.4
_PYTHON: Final = ".py"
_OTHERS: Final = (_PYTHON, ".R", ".r")
_WORKER_OPTIONS: Final = "SPARK_WORKER_OPTS"
_DYNAMIC: Final = "spark.dynamicAllocation."
_NO_EFFECT: Final = "has no effect: the number of executors is fixed"
_JVM_MEMORY: Final = "memory of the container, with Spark's overhead, and of the JVM"
_EXTRA_MEMORY: Final = "memory of the container, together with the JVM's"
_OF_FACTOR: Final = "memory of the containers, together with the JVM's"
_LIMIT: Final = re.compile(r"\s*(\d+)\s*([kmgtp])b?\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class _Device:
    """A resource of Spark's own: number, vendor, and the script that finds the devices."""

    name: str
    amount: int
    vendor: str | None
    script: str | None


def number_of_executors(settings: SparkSettings) -> int:
    """Return the number of executors; with dynamic allocation the number with which the application starts."""
    source = settings.source
    count = settings.whole("spec.executor.instances", "spark.executor.instances", "number of pods", least=1)
    path = "spec.dynamicAllocation"
    source.keys(path)
    of_field = source.peek(f"{path}.enabled") not in (None, False)
    if of_field:
        settings.source.flag(f"{path}.enabled")
    if not of_field and not is_true(settings.conf.get(f"{_DYNAMIC}enabled")):
        source.same(f"{path}.enabled", "the number of executors is fixed")
        for name in source.keys(path):
            source.changed(f"{path}.{name}", _NO_EFFECT)
        _leave_out_dynamic(settings)
        return count or 1
    least, first, most = (
        settings.whole(f"{path}.{name}Executors" if of_field else "", f"{_DYNAMIC}{name}Executors", _NO_EFFECT)
        for name in ("min", "initial", "max")
    )
    number = max(1, count or 0, least or 0, first or 0)
    growth = "" if (inf if most is None else most) <= number else f", and does not grow{f' to {most}' if most else ''}"
    message = f"the number of executors is fixed at {number}, with which the application starts{growth}"
    fix = "set executor.instances to the number that the job needs"
    if of_field:
        source.lost(path, message, fix)
    else:
        settings.lose(f"{_DYNAMIC}enabled", message, fix)
    _leave_out_dynamic(settings)
    return number


def cores_of(settings: SparkSettings, role: str) -> int:
    """Return the cores that Spark uses in a pod."""
    found = settings.whole(
        f"spec.{role}.cores", f"spark.{role}.cores", "cores of the container", least=1, passed=role == EXECUTOR
    )
    return found or _CORES_DEFAULT


def memory_of(settings: SparkSettings, role: str) -> str:
    """Return the memory of the JVM in Spark's notation."""
    return settings.text(f"spec.{role}.memory", f"spark.{role}.memory", _JVM_MEMORY, passed=True) or f"{_DEFAULT_GIB}g"


def set_resources(settings: SparkSettings, role: str, container: Body) -> None:
    """Set a container's resources as Spark requests them."""
    source, path = settings.source, f"spec.{role}"
    memory = quantity.format(Fraction(_memory(settings, role) * MEBIBYTE), "memory")
    cores = cores_of(settings, role)
    key = f"spark.kubernetes.{role}"
    request = settings.text(f"{path}.coreRequest", f"{key}.request.cores", "cores of the container") or str(cores)
    requests: Body = {"cpu": request, "memory": memory}
    limits: Body = {"memory": memory}
    limit = settings.text(f"{path}.coreLimit", f"{key}.limit.cores", "limit of the container")
    if limit:
        limits["cpu"] = limit
    limit = source.text(f"{path}.memoryLimit")
    if limit:
        match = _LIMIT.fullmatch(limit)
        limits["memory"] = f"{match[1]}{match[2].upper()}i" if match else limit.strip()
    for name in ("cores", "coreRequest"):
        source.same(f"{path}.{name}", "cores of the container")
    for name in ("coreLimit", "memoryLimit"):
        source.same(f"{path}.{name}", "limit of the container")
    source.changed(f"{path}.memory", _JVM_MEMORY)
    source.changed(f"{path}.memoryOverhead", _EXTRA_MEMORY)
    for device in _devices(settings, role):
        if device.vendor is not None:
            name = f"{device.vendor}/{device.name}"
            limits[name] = requests[name] = str(device.amount)
    device_name, number = source.text(f"{path}.gpu.name"), source.integer(f"{path}.gpu.quantity", 1)
    if device_name and number is not None:
        limits[device_name] = requests[device_name] = str(number)
        source.same(f"{path}.gpu.name", "resource of the container")
        source.changed(f"{path}.gpu.quantity", "amount of the container's resource")
    elif number is not None:
        source.lost(f"{path}.gpu.quantity", "no name says which resource of the pods it is", f"set {path}.gpu.name")
    resources = container.get("resources", {})
    if not isinstance(resources, dict):
        raise source.malformed(f"{path}.template.spec.containers[0].resources", "must be an object")
    for kind, amounts in (("requests", requests), ("limits", limits)):
        resources[kind] = {**(resources.get(kind) or {}), **amounts}
    container["resources"] = resources


def offer_devices(settings: SparkSettings, container: Body) -> None:
    """Let a standalone worker offer the devices that the executors ask for."""
    options = []
    for device in _devices(settings, EXECUTOR):
        key = f"spark.executor.resource.{device.name}.amount"
        fix = f"set spark.executor.resource.{device.name}."
        if device.vendor is None:
            settings.lose(key, "no vendor says which resource of the pods it is", f"{fix}vendor")
        elif device.script is None:
            settings.lose(key, "the workers find no devices without a discovery script", f"{fix}discoveryScript")
        else:
            own = f"-Dspark.worker.resource.{device.name}."
            options += [f"{own}amount={device.amount}", _quoted(f"{own}discoveryScript={device.script}")]
    if not options:
        return
    variables = container.setdefault("env", [])
    old = next((each for each in variables if each["name"] == _WORKER_OPTIONS and "value" in each), None)
    text = " ".join([*([old["value"]] if old else []), *options])
    container["env"] = [*(each for each in variables if each is not old), {"name": _WORKER_OPTIONS, "value": text}]


def _memory(settings: SparkSettings, role: str) -> int:
    """Return the memory of a pod in MiB: JVM, overhead, and what else the executors use."""
    own, key = f"spec.{role}", f"spark.{role}"
    memory = settings.mebibytes(f"{own}.memory", f"{key}.memory", _JVM_MEMORY, passed=True)
    memory = 1024 * _DEFAULT_GIB if memory is None else memory
    overhead = settings.mebibytes(f"{own}.memoryOverhead", f"{key}.memoryOverhead", _EXTRA_MEMORY)
    factor = _factor(settings, role)
    if overhead is None:
        least = settings.mebibytes("", f"{key}.minMemoryOverhead", _EXTRA_MEMORY)
        overhead = max(int(factor * memory), _LEAST_OVERHEAD if least is None else least)
    if role == DRIVER:
        return memory + overhead
    enabled = is_true(settings.of_conf("spark.memory.offHeap.enabled", _EXTRA_MEMORY, passed=True))
    off_heap = settings.mebibytes("", "spark.memory.offHeap.size", _EXTRA_MEMORY, unit="b", passed=True) or 0
    python = settings.mebibytes("", "spark.executor.pyspark.memory", _EXTRA_MEMORY, passed=True) or 0
    of_python = str(settings.source.peek("spec.mainApplicationFile")).endswith(_PYTHON)
    return memory + overhead + (off_heap if enabled else 0) + (python if of_python else 0)


def _factor(settings: SparkSettings, role: str) -> float:
    own = settings.factor("", f"spark.{role}.memoryOverheadFactor", _OF_FACTOR)
    # The operator writes its field before sparkConf, which counts therefore.
    key = "spark.kubernetes.memoryOverheadFactor"
    field = "spec.memoryOverheadFactor"
    if key in settings.conf:
        found = settings.factor("", key, _OF_FACTOR)
        settings.source.text(field)
        settings.source.changed(field, f"has no effect: sparkConf {key} counts")
    else:
        found = settings.factor(field, key, _OF_FACTOR)
        settings.source.changed(field, _OF_FACTOR)
    if own is not None:
        return own
    if found is not None:
        return found
    file = str(settings.source.peek("spec.mainApplicationFile"))
    return _FACTOR_OF_OTHERS if file.endswith(_OTHERS) else _FACTOR_OF_JVM


def _devices(settings: SparkSettings, role: str) -> list[_Device]:
    """Return the resources that the settings name for a role."""
    prefix = f"spark.{role}.resource."
    found = []
    for name in dict.fromkeys(key.partition(".")[0] for key in settings.keys(prefix)):
        amount = settings.whole("", f"{prefix}{name}.amount", "amount of the container's resource", passed=True)
        vendor = settings.of_conf(f"{prefix}{name}.vendor", "resource of the container", passed=True)
        became = "script of the worker" if role == EXECUTOR else "script of the driver"
        script = settings.of_conf(f"{prefix}{name}.discoveryScript", became, passed=True)
        field, _, resource = str(settings.source.peek(f"spec.{role}.gpu.name") or "").rpartition("/")
        if amount:
            found.append(_Device(name, amount, vendor or (field if resource == name and field else None), script))
    return found


def _leave_out_dynamic(settings: SparkSettings) -> None:
    for name in settings.keys(_DYNAMIC):
        settings.leave_out(f"{_DYNAMIC}{name}", _NO_EFFECT)


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option
