"""Options of ``ray start``, as KubeRay derives them from a group's start parameters and its container's resources."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from trainyard.api import Body
from trainyard.jobs.convert.source import LegacySource
from trainyard.jobs.render.frameworks.ray import CLIENT_PORT, DASHBOARD_PORT, PORT
from trainyard.quantity import parse

FIXED: Final = {
    "address": (),
    "block": ("true", ""),
    "dashboard-host": ("0.0.0.0", "::"),  # noqa: S104
    "port": (str(PORT),),
    "dashboard-port": (str(DASHBOARD_PORT),),
    "ray-client-server-port": (str(CLIENT_PORT),),
}
"""Start parameters that the framework sets, with the values that mean the same."""
METRICS_PORT: Final = 8080
"""Port at which KubeRay lets Ray export its metrics."""
_ACCELERATORS: Final = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
_GPU: Final = re.compile(r".*gpu|.*nvidia\.com/mig-\d+g\.\d+gb", re.DOTALL)
_KEEPS_VALUE: Final = ("log-color", "include-dashboard", "include-log-monitor")
_SWITCH: Final = ("true", "false")


def ray_options(source: LegacySource, path: str, params: Mapping[str, str], container: Body) -> dict[str, str]:
    """Return the options of a group by name.

    Parameters
    ----------
    path
        Path of the group.
    params
        Its start parameters.
    container
        The container that runs Ray.
    """
    found = {key: value for key, value in params.items() if key not in FIXED}
    _apply_group(source, path, found)
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    cores = _whole(limits.get("cpu")) or _whole(requests.get("cpu"))
    if cores:
        found.setdefault("num-cpus", str(cores))
    memory = _whole(limits.get("memory"))
    if memory:
        found.setdefault("memory", str(memory))
    gpus = next((_whole(limits[name]) for name in sorted(limits) if _GPU.fullmatch(name) and _whole(limits[name])), 0)
    if gpus:
        found.setdefault("num-gpus", str(gpus))
    _add_accelerator(found, limits)
    found.setdefault("metrics-export-port", str(METRICS_PORT))
    return found


def as_arguments(options: Mapping[str, str]) -> str:
    """Return options as they stand in a script, in the notation of KubeRay."""
    words = []
    for key, value in sorted(options.items()):
        if value.lower() not in _SWITCH or key in _KEEPS_VALUE:
            words.append(f"--{key}={value}")
        elif value.lower() == "true":
            words.append(f"--{key}")
    return " ".join(words)


def _apply_group(source: LegacySource, path: str, options: dict[str, str]) -> None:
    """Apply the resources and labels of a group, which count over its start parameters."""
    custom: dict[str, float] = {}
    for name, amount in source.texts(f"{path}.resources").items():
        try:
            number = parse(amount)
        except ValueError as error:
            raise source.malformed((*path.split("."), "resources", name), f"must be an amount: {error}") from error
        key = {"cpu": "num-cpus", "memory": "memory"}.get(name.lower())
        key = "num-gpus" if key is None and _GPU.fullmatch(name.lower()) else key
        if key is None:
            custom[name] = float(number)
        else:
            options[key] = str(ceil(number))
    if custom:
        options["resources"] = _quoted(custom)
    source.changed(f"{path}.resources", "options of `ray start`")
    labels = source.texts(f"{path}.labels")
    if labels:
        options["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    source.changed(f"{path}.labels", "option --labels of `ray start`, and labels of the pods")


def _add_accelerator(options: dict[str, str], limits: Mapping[str, Any]) -> None:
    """Add the first accelerator that Ray counts as a custom resource, unless the job names one."""
    amounts = {name: _whole(limits[name]) for name in sorted(limits) if name in _ACCELERATORS}
    name = next((name for name, amount in amounts.items() if amount), None)
    custom = _custom(options.get("resources", "{}"))
    if name is None or custom is None or any(each in custom for each in _ACCELERATORS.values()):
        return
    options["resources"] = _quoted({**custom, _ACCELERATORS[name]: amounts[name]})


def _custom(text: str) -> dict[str, float] | None:
    """Return custom resources as a shell reads them; None if they are no JSON object of numbers."""
    inner = text.strip("'\"` ")
    for each in (inner, inner.replace('\\"', '"')):
        try:
            found = json.loads(each)
        except ValueError:
            continue
        numbers = isinstance(found, dict) and all(type(value) in (int, float) for value in found.values())
        return found if numbers else None
    return None


def _quoted(resources: Mapping[str, float]) -> str:
    plain = {name: int(amount) if amount == int(amount) else amount for name, amount in resources.items()}
    return f"'{json.dumps(plain, sort_keys=True, separators=(',', ':'))}'"


def _whole(amount: Any) -> int:
    return 0 if amount is None else ceil(parse(amount))
