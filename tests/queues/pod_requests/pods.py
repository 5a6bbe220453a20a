"""Generated pods and their requests: ``python -m tests.queues.pod_requests.pods`` records what schedulers count.

The programs set the defaults of the API server and call the scheduler's function. They are built with the modules of
the pinned API server, in ``toolchain/control-plane``, and of the pinned Volcano, in ``toolchain/volcano``.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any, Final

Body = dict[str, Any]
FOLDER: Final = Path(__file__).parent
MODULES: Final = {"kubernetes": "control-plane", "volcano": "volcano"}
_TOOLCHAIN: Final = FOLDER.parents[2] / "toolchain"
_SEED: Final = 20261123
_COUNT: Final = 400
_AMOUNTS: Final = {
    "cpu": ("0", "1", "250m", "1.5", "8"),
    "memory": ("0", "1Gi", "512Mi", "1e9"),
    "nvidia.com/gpu": ("1", "8"),
    "ephemeral-storage": ("1Gi", "10G"),
    "hugepages-2Mi": ("64Mi", "128Mi"),
}


def generated() -> list[Body]:
    """Return pods; the same on every run."""
    source = random.Random(_SEED)
    return [_pod(source) for _ in range(_COUNT)]


def recorded(scheduler: str) -> list[dict[str, Any]]:
    """Return the recorded requests, in the order of the pods."""
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{scheduler}.json").read_text())
    return found


def counted(scheduler: str, pods: list[Body]) -> list[dict[str, Any]]:
    """Return the requests that a scheduler counts."""
    # The toolchain's own modules: nothing of the environment may replace them.
    modules, program = _TOOLCHAIN / MODULES[scheduler], FOLDER / scheduler / "main.go"
    command = ["go", "run", "-C", str(modules), str(program)]
    answer = subprocess.run(command, input=json.dumps(pods), capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def _pod(source: random.Random) -> Body:
    pod: Body = {"containers": [_container(source, f"c{number}") for number in range(source.randint(1, 3))]}
    if source.random() < 0.6:
        steps = [_container(source, f"i{number}") for number in range(source.randint(1, 4))]
        for step in steps:
            if source.random() < 0.4:
                step["restartPolicy"] = "Always"
        pod["initContainers"] = steps
    if source.random() < 0.5:
        resources = _resources(source, ("cpu", "memory", "hugepages-2Mi"))
        if resources:
            pod["resources"] = resources
    if source.random() < 0.2:
        pod["overhead"] = {"cpu": "100m", "memory": "64Mi"}
    return pod


def _container(source: random.Random, name: str) -> Body:
    resources = _resources(source, tuple(_AMOUNTS))
    return {"name": name, "image": "image", **({"resources": resources} if resources else {})}


def _resources(source: random.Random, names: tuple[str, ...]) -> Body:
    resources: Body = {}
    for name in names:
        kinds: tuple[str, ...] = source.choice(((), (), ("requests",), ("limits",), ("requests", "limits")))
        amount = source.choice(_AMOUNTS[name])
        if name.startswith("hugepages-") and kinds:
            # The API server accepts only equal amounts, and limits alone.
            kinds = ("limits",) if kinds == ("limits",) else ("requests", "limits")
        for kind in kinds:
            own = amount if name.startswith("hugepages-") else source.choice(_AMOUNTS[name])
            resources.setdefault(kind, {})[name] = own
    return resources


if __name__ == "__main__":
    for scheduler in MODULES:
        lines = ",\n".join(json.dumps(requests, sort_keys=True) for requests in counted(scheduler, generated()))
        (FOLDER / f"{scheduler}.json").write_text(f"[\n{lines}\n]\n")
