"""The work of rendering is linear in the size of the TrainJob and of its runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.counting import calls
from tests.render.builders import container, patch, pod_patch, replicated_job, torch, train_job, trainer
from trainyard.api import Body, TrainJob
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import RenderContext, Rendered

SMALL = 48
MOST = 2.3
"""Largest ratio of the calls for twice the elements; n squared would give 4, and n log n about 2.2."""

Input = tuple[TrainJob, Any]


def variables(number: int) -> list[Body]:
    return [{"name": f"NAME_{index}", "value": f"$(NAME_{index - 1})"} for index in range(number)]


def roles(number: int) -> list[Body]:
    return [trainer(), *(replicated_job(f"role-{index}") for index in range(number))]


def chain(number: int) -> list[Body]:
    """Return jobs that each start after the one before."""
    named = ["node", *(f"role-{index}" for index in range(number))]
    after = [{"dependsOn": [{"name": before, "status": "Ready"}]} for before in named]
    return [trainer(), *(replicated_job(name, **more) for name, more in zip(named[1:], after, strict=False))]


def targeted(number: int, **values: Any) -> list[Body]:
    return [{"targetJobs": [{"name": f"role-{index}"}], **values} for index in range(number)]


def mounted(number: int) -> dict[str, Any]:
    volumes = [{"name": f"volume-{index}", "emptyDir": {}} for index in range(number)]
    mounts = [{"name": f"volume-{index}", "mountPath": f"/data/{index}"} for index in range(number)]
    return {"pod": {"volumes": volumes}, "containers": [container(volumeMounts=mounts)]}


INPUTS: dict[str, Callable[[int], Input]] = {
    "replicatedJobs": lambda n: (train_job(), torch(*roles(n))),
    "replicatedJobs of a gang": lambda n: (train_job(), torch(*roles(n), volcano={})),
    "replicatedJobs that depend on each other": lambda n: (train_job(), torch(*chain(n))),
    "containers": lambda n: (
        train_job(),
        torch(trainer(containers=[container(), *(container(f"side-{index}") for index in range(n))])),
    ),
    "env of the runtime": lambda n: (train_job(), torch(trainer(containers=[container(env=variables(n))]))),
    "env of the TrainJob": lambda n: (train_job(trainer={"env": variables(n)}), torch()),
    "the same env in both": lambda n: (
        train_job(trainer={"env": variables(n)}),
        torch(trainer(containers=[container(env=variables(n))])),
    ),
    "volumes": lambda n: (train_job(), torch(trainer(**mounted(n)))),
    "podSpecOverrides": lambda n: (
        train_job(podSpecOverrides=targeted(n, nodeSelector={"rack": "a"})),
        torch(*roles(n)),
    ),
    "podTemplateOverrides": lambda n: (
        train_job(podTemplateOverrides=targeted(n, metadata={"labels": {"team": "a"}})),
        torch(*roles(n)),
    ),
    "env of podTemplateOverrides": lambda n: (
        train_job(
            podTemplateOverrides=[
                {**each, "spec": {"containers": [{"name": "role-0", "env": variables(n)}]}} for each in targeted(1)
            ]
        ),
        torch(trainer(), replicated_job("role-0", containers=[container("role-0", env=variables(n))])),
    ),
    "runtimePatches of one replicatedJob each": lambda n: (
        train_job(runtimePatches=[patch(*(pod_patch(f"role-{index}", nodeSelector={"a": "b"}) for index in range(n)))]),
        torch(*roles(n)),
    ),
}


def work(of: Callable[[int], Input], number: int) -> int:
    """Return how many calls rendering and validating an input takes."""
    job, against = of(number)

    def render_and_validate() -> None:
        result = render(job, against, RenderContext())
        validate(job, against, RenderContext())
        assert isinstance(result, Rendered), result

    return calls(render_and_validate)


@pytest.mark.parametrize("of", INPUTS.values(), ids=INPUTS)
def test_twice_the_elements_take_at_most_twice_the_calls(of: Callable[[int], Input]) -> None:
    work(of, 1)  # What is made once per process is made before it is counted.
    base, once, twice = (work(of, number) for number in (1, 1 + SMALL, 1 + 2 * SMALL))
    assert (twice - base) / (once - base) <= MOST
