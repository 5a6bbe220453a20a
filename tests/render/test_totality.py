"""Rendering is total, pure and deterministic, whatever the input."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.render.builders import ANCESTOR, QUEUE
from trainyard.api import ClusterTrainingRuntime, TrainJob
from trainyard.render import Rejected, RenderContext, Rendered, defaulted, render, validate, validate_runtime

Bodies = st.SearchStrategy[Any]

JOBS = ["node", "launcher", "dataset-initializer", "model-initializer"]
CONTEXT = RenderContext(default_queue="q", priority_classes=frozenset({"low"}))
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
LABELS = st.fixed_dictionaries({}, optional={ANCESTOR: st.sampled_from(["trainer", *JOBS[2:], "else"])})
ANNOTATIONS = st.fixed_dictionaries({}, optional={"a": st.just("b"), QUEUE: st.sampled_from(["q", "r"])})


def some(**strategies: Bodies) -> Bodies:
    return st.fixed_dictionaries({}, optional=strategies)


def unique(item: Bodies, key: str, *, least: int = 0) -> Bodies:
    return st.lists(item, min_size=least, max_size=3, unique_by=lambda body: body[key])


def named(names: Bodies, **strategies: Bodies) -> Bodies:
    return st.fixed_dictionaries({"name": names}, optional=strategies)


METADATA = some(labels=LABELS, annotations=ANNOTATIONS)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "500m", "1Gi", 8, 0, 0.5]), max_size=3
)
RESOURCES = some(limits=AMOUNTS, requests=AMOUNTS, claims=st.just([{"name": "c"}]))
ENV = unique(
    named(st.sampled_from("ABC"), value=st.just("1"), valueFrom=st.just({"fieldRef": {"fieldPath": "x"}})), "name"
)
MOUNTS = unique(
    st.fixed_dictionaries({"name": st.just("initializer"), "mountPath": st.sampled_from(["/a", "/b"])}), "mountPath"
)
PORTS = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.sampled_from([29500, 80])}, optional={"protocol": st.sampled_from(["UDP", "TCP"])}
    ),
    max_size=2,
)
CONTAINERS = unique(
    named(st.sampled_from(JOBS), env=ENV, volumeMounts=MOUNTS, ports=PORTS, resources=RESOURCES), "name", least=1
)
STEPS = unique(named(st.sampled_from(["s", "t"]), resources=RESOURCES, restartPolicy=st.just("Always")), "name")
POD_FIELDS = {
    "volumes": unique(named(st.sampled_from("vw"), emptyDir=st.just({})), "name"),
    "tolerations": st.just([{"key": "k"}]),
    "nodeSelector": st.just({"a": "b"}),
    "affinity": st.just({"nodeAffinity": {}}),
}
POD = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={
        **POD_FIELDS,
        "initContainers": STEPS,
        "schedulerName": st.sampled_from(["volcano", "other"]),
        "priorityClassName": st.just("low"),
        "overhead": AMOUNTS,
        "resources": RESOURCES,
    },
)
POD_TEMPLATE = st.fixed_dictionaries({"spec": POD}, optional={"metadata": METADATA})
JOB_SPEC = st.fixed_dictionaries({"template": POD_TEMPLATE}, optional={"parallelism": st.integers(-1, 9)})
JOB = st.fixed_dictionaries({"spec": JOB_SPEC}, optional={"metadata": METADATA})
DEPENDS = unique(
    st.fixed_dictionaries({"name": st.sampled_from(JOBS), "status": st.sampled_from(["Ready", "Complete"])}), "name"
)
REPLICATED_JOB = st.fixed_dictionaries(
    {"name": st.sampled_from(JOBS), "template": JOB}, optional={"replicas": st.integers(1, 3), "dependsOn": DEPENDS}
)
RUNTIME = st.fixed_dictionaries(
    {
        "template": st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {"replicatedJobs": unique(REPLICATED_JOB, "name", least=1)},
                    optional={
                        "startupPolicy": st.just({"startupPolicyOrder": "InOrder"}),
                        "network": st.just({"subdomain": "net"}),
                    },
                )
            },
            optional={"metadata": METADATA},
        ),
        "podGroupPolicy": st.sampled_from([{}, {"volcano": {}}, {"volcano": {"networkTopology": {}}}]),
    },
    optional={"mlPolicy": some(torch=st.just({}), numNodes=st.integers(1, 5))},
)
TARGET = named(
    st.sampled_from(JOBS),
    template=some(
        metadata=METADATA,
        spec=some(
            template=some(
                metadata=METADATA,
                spec=some(
                    **POD_FIELDS, containers=unique(named(st.sampled_from(JOBS), volumeMounts=MOUNTS, env=ENV), "name")
                ),
            )
        ),
    ),
)
PATCH = st.fixed_dictionaries(
    {"manager": st.sampled_from(["a.io/b", "c.io/d"])},
    optional={
        "trainingRuntimeSpec": some(template=some(metadata=METADATA, spec=some(replicatedJobs=unique(TARGET, "name"))))
    },
)
SOURCE = some(storageUri=st.just("hf://a/b"), env=ENV, secretRef=st.just({"name": "s"}))
TRAIN_JOB = st.fixed_dictionaries(
    {"runtimeRef": st.just({"name": "r"})},
    optional={
        "trainer": some(
            numNodes=st.sampled_from([1, 4, 2**31 - 1]), env=ENV, resourcesPerNode=RESOURCES, image=st.just("i")
        ),
        "initializer": some(dataset=SOURCE, model=SOURCE),
        "runtimePatches": unique(PATCH, "manager"),
        "suspend": st.booleans(),
    },
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container and key of a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def answered(spec: Any, runtime_spec: Any, name: str) -> None:
    defaulted({"spec": spec}, {"spec": runtime_spec}, "now")
    try:
        job = TrainJob.from_body({"metadata": {"name": name}, "spec": spec})
        runtime = ClusterTrainingRuntime.from_body({"metadata": {"name": "r"}, "spec": runtime_spec})
    except ValidationError:
        return
    before = deepcopy((job.body(), runtime.body()))
    result = render(job, runtime, CONTEXT)
    assert isinstance(result, Rendered | Rejected)
    assert render(job, runtime, CONTEXT) == result
    assert (job.body(), runtime.body()) == before
    assert validate(job, runtime, CONTEXT, old=job).allowed == isinstance(result, Rendered)
    validate_runtime(runtime, runtime)
    if isinstance(result, Rendered):
        groups = [body["spec"] for body in result.objects if body["kind"] == "PodGroup"]
        assert all(group["minMember"] >= 1 for group in groups)


QUICK = settings(max_examples=50, suppress_health_check=list(HealthCheck), deadline=None)


@QUICK
@given(TRAIN_JOB, RUNTIME, st.sampled_from(["job", "j" * 60]))
def test_every_sound_input_gets_an_answer(spec: Any, runtime: Any, name: str) -> None:
    answered(spec, runtime, name)


@QUICK
@given(st.tuples(TRAIN_JOB, RUNTIME), st.data())
def test_every_damaged_input_gets_an_answer(bodies: tuple[Any, Any], data: st.DataObject) -> None:
    damaged = deepcopy(list(bodies))
    for _ in range(data.draw(st.integers(1, 3))):
        spots = list(places(damaged))
        parent, key = spots[data.draw(st.integers(0, len(spots) - 1))]
        parent[key] = data.draw(ODD)
    answered(damaged[0], damaged[1], "job")
