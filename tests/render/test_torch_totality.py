"""PyTorch in every combination: there is always an answer, the same one twice, and nothing given is changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.render.builders import container, runtime, train_job, trainer
from trainyard.api import Body
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import Rejected, RenderContext

PROCESSES = st.one_of(st.integers(-1, 9), st.sampled_from(["auto", "cpu", "gpu", "npu", ""]))
NODES = st.integers(1, 6)
RESOURCE_NAMES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/GPU"])
AMOUNTS = st.dictionaries(RESOURCE_NAMES, st.sampled_from(["0", "1", "2500m", 8]), max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS})
SETTINGS = ["x=1", "=", "~a.b", "output_dir=/o", "dataset=a", "dataset.source=b", "model.quantize_base=True"]
ARGUMENTS = ["tune", "run", "--config", "--flag=1", "", "$(TRAINER_NNODES)", "model.lora_attn_modules=[q]"]
WORDS = st.lists(st.sampled_from([*SETTINGS, *ARGUMENTS]), max_size=6)
COMMANDS = st.one_of(st.just(["tune", "run"]), WORDS)
ELASTIC = st.fixed_dictionaries(
    {}, optional={"minNodes": NODES, "maxNodes": NODES, "maxRestarts": st.integers(0, 3), "metrics": st.just([{}])}
)
POLICIES = st.fixed_dictionaries({}, optional={"numProcPerNode": PROCESSES, "elasticPolicy": ELASTIC})
TRAINERS = st.fixed_dictionaries(
    {},
    optional={
        "command": COMMANDS,
        "args": WORDS,
        "numNodes": NODES,
        "numProcPerNode": PROCESSES,
        "resourcesPerNode": RESOURCES,
        "env": st.just([{"name": "PET_RDZV_ID", "value": "$(TRAINER_JOB_ID)"}]),
    },
)
NAMES = st.sampled_from(
    ["torchtune-llama3.2-1b", "torchtune-llama3.3-70b-1.0", "torchtune-qwen2.5-1.5b", "runtime", "a-b-c"]
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    policy=POLICIES,
    asked=st.one_of(st.none(), TRAINERS),
    own=st.fixed_dictionaries({}, optional={"command": WORDS, "args": WORDS, "resources": RESOURCES}),
    nodes=st.one_of(st.none(), NODES),
    name=NAMES,
    labelled=st.booleans(),
)
def test_every_torch_job_gets_the_same_answer_twice(
    policy: Body, asked: Body | None, own: Body, nodes: int | None, name: str, labelled: bool
) -> None:
    ml_policy: dict[str, Any] = {"torch": policy, **({} if nodes is None else {"numNodes": nodes})}
    of = runtime(trainer(containers=[container("node" if labelled else "other", **own)]), mlPolicy=ml_policy)
    job = train_job(runtimeRef={"name": name}, **({} if asked is None else {"trainer": asked}))
    before = (of.body(), job.body())
    first = render(job, of, RenderContext())
    assert render(job, of, RenderContext()) == first
    assert (of.body(), job.body()) == before
    assert isinstance(first, Rejected) == bool(validate(job, of, RenderContext()).errors)
