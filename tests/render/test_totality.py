"""Rendering is total, pure and deterministic, whatever the input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.render.builders import ANCESTOR, QUEUE
from trainyard.api import ClusterTrainingRuntime, TrainJob
from trainyard.jobs.render.defaults import defaulted
from trainyard.jobs.render.frameworks import FRAMEWORKS, PLAIN
from trainyard.jobs.render.gangs import GANGS
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import AdmissionDecision, Rejected, RenderContext, Rendered, StatusServerAddress
from trainyard.jobs.render.runtime_admission import validate_runtime
from trainyard.jobs.render.runtime_snapshot import read_snapshot

Bodies = st.SearchStrategy[Any]

JOBS = ["node", "launcher", "dataset-initializer", "model-initializer"]
CONTEXT = RenderContext(
    default_queue="q",
    priority_classes=frozenset({"low"}),
    status_server=StatusServerAddress("controller", "system"),
)
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
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/GPU"]),
    st.sampled_from(["1", "500m", "1Gi", 8, 0, 0.5]),
    max_size=3,
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
WORDS = st.lists(
    st.sampled_from(
        [
            *("x=1", "=", "~a.b", "output_dir=/o", "dataset=a", "dataset.source=b", "model.quantize_base=True"),
            *("tune", "run", "--config", "--flag=1", "", "$(TRAINER_NNODES)", "model.lora_attn_modules=[q]"),
        ]
    ),
    max_size=6,
)
CONTAINERS = unique(
    named(
        st.sampled_from(JOBS),
        env=ENV,
        volumeMounts=MOUNTS,
        ports=PORTS,
        resources=RESOURCES,
        command=WORDS,
        args=WORDS,
    ),
    "name",
    least=1,
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
POLICIES: list[Any] = [
    {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["s"]}]}}},
    {"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 4, "maxRestarts": 2}}},
    {"torch": {"elasticPolicy": {"minNodes": 5, "maxNodes": 2, "metrics": [{}]}, "numProcPerNode": "gpu"}},
    {"torch": {"numProcPerNode": "npu"}},
    {"mpi": {"mpiImplementation": "Intel", "runLauncherAsNode": True}},
    {"mpi": {"mpiImplementation": "MPICH", "numProcPerNode": 2}},
]
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
        "podGroupPolicy": st.sampled_from([{}, {"volcano": {"networkTopology": {}}}, *({name: {}} for name in GANGS)]),
    },
    optional={
        "mlPolicy": st.builds(
            lambda chosen, nodes: {**chosen, **nodes},
            st.sampled_from([{}, *({name: {}} for name in FRAMEWORKS if name != PLAIN), *POLICIES]),
            some(numNodes=st.integers(1, 5)),
        )
    },
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
POD_OVERRIDE = {
    **{name: POD_FIELDS[name] for name in ("volumes", "tolerations", "nodeSelector")},
    "containers": unique(named(st.sampled_from(JOBS), volumeMounts=MOUNTS, env=ENV), "name"),
}
TARGETS = unique(named(st.sampled_from(JOBS)), "name")
OVERRIDES = {
    "podSpecOverrides": st.lists(st.fixed_dictionaries({"targetJobs": TARGETS}, optional=POD_OVERRIDE), max_size=2),
    "podTemplateOverrides": st.lists(
        st.fixed_dictionaries({"targetJobs": TARGETS}, optional={"metadata": METADATA, "spec": some(**POD_OVERRIDE)}),
        max_size=2,
    ),
}
SOURCE = some(storageUri=st.just("hf://a/b"), env=ENV, secretRef=st.just({"name": "s"}))
NAMES = ("r", "torchtune-llama3.2-1b", "torchtune-llama3.3-70b-1.0", "torchtune-qwen2.5-1.5b", "a-b-c")
TRAIN_JOB = st.fixed_dictionaries(
    {"runtimeRef": st.sampled_from([{"name": name} for name in NAMES])},
    optional={
        "trainer": some(
            numNodes=st.sampled_from([1, 4, 2**31 - 1]),
            numProcPerNode=st.sampled_from([1, 2, "auto", "cpu", "other"]),
            env=ENV,
            resourcesPerNode=RESOURCES,
            image=st.just("i"),
            command=st.just(["tune", "run"]) | WORDS,
            args=WORDS,
        ),
        "initializer": some(dataset=SOURCE, model=SOURCE),
        "runtimePatches": unique(PATCH, "manager"),
        **OVERRIDES,
        "labels": st.sampled_from([{"a": "b"}, {"a": "no label"}]),
        "annotations": ANNOTATIONS,
        "suspend": st.booleans(),
    },
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container and key of a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def reordered(value: Any) -> Any:
    """Return a JSON value with every object's keys in reverse order."""
    if isinstance(value, dict):
        return {key: reordered(inner) for key, inner in reversed(value.items())}
    return [reordered(inner) for inner in value] if isinstance(value, list) else value


def emptied(value: Any) -> None:
    """Empty every object and list of a JSON value, innermost first."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        emptied(inner)
    if isinstance(value, dict | list):
        value.clear()


def read(spec: Any, runtime_spec: Any, name: str) -> tuple[TrainJob, ClusterTrainingRuntime] | None:
    try:
        job = TrainJob.from_body({"metadata": {"name": name, "uid": "1"}, "spec": spec})
        reference = job.spec.runtime_ref.name if job.spec else "r"
        return job, ClusterTrainingRuntime.from_body({"metadata": {"name": reference}, "spec": runtime_spec})
    except ValidationError:
        return None


def answered(spec: Any, runtime_spec: Any, name: str) -> Rendered | Rejected | None:
    """Hold every answer about a TrainJob to what is promised of it; return what became of a job that can be read."""
    once = defaulted({"spec": spec}, {"spec": runtime_spec}, "now")
    assert defaulted(once, once, "later") == once
    pair = read(spec, runtime_spec, name)
    if pair is None:
        return None
    job, runtime = pair
    before = deepcopy((job.body(), runtime.body()))
    result = render(job, runtime, CONTEXT)
    assert isinstance(result, Rendered | Rejected)
    assert render(job, runtime, CONTEXT) == result
    verdict = validate(job, runtime, CONTEXT)
    assert verdict.allowed == isinstance(result, Rendered)
    assert verdict.warnings == result.warnings
    assert all(error.message and error.fix for error in verdict.errors)
    if job.spec:
        assert validate(job, runtime, CONTEXT, old=job) == AdmissionDecision()
        held = read({**spec, "suspend": not job.spec.suspend}, runtime_spec, name)
        assert held is not None
        assert validate(job, runtime, CONTEXT, old=held[0]).errors in (verdict.errors, ())
    validate_runtime(runtime, runtime)
    assert (job.body(), runtime.body()) == before
    return result


def refused_by_job_set(job_set: Any) -> Iterator[str]:
    """Yield what JobSet's admission would say: its formulas, written down a second time."""
    name, spec = job_set["metadata"]["name"], job_set["spec"]
    label = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
    earlier: list[str] = []
    for job in spec["replicatedJobs"]:
        batch, last = job["template"]["spec"], job.get("replicas", 1) - 1
        names = [f"{name}-{job['name']}-{last}", job.get("groupName", "default")]
        if batch.get("completionMode", "Indexed") == "Indexed":
            names.append(f"{names[0]}-{batch['completions'] - 1}-abcde")
        yield from (text for text in names if len(text) > 63 or not label.fullmatch(text))
        if batch["parallelism"] * (last + 1) >= 2**31:
            yield "too many pods"
        yield from (entry["name"] for entry in job.get("dependsOn", ()) if entry["name"] not in earlier)
        earlier.append(job["name"])


QUICK = settings(max_examples=50, suppress_health_check=list(HealthCheck), deadline=None)


@pytest.mark.slow
@QUICK
@given(TRAIN_JOB, RUNTIME, st.sampled_from(["job", "j" * 60]))
def test_every_sound_input_gets_an_answer(spec: Any, runtime: Any, name: str) -> None:
    result = answered(spec, runtime, name)
    if isinstance(result, Rendered):
        groups = [body["spec"] for body in result.objects if body["kind"] == "PodGroup"]
        assert all(group["minMember"] >= 1 for group in groups)
        assert list(refused_by_job_set(result.objects[-1])) == []


@QUICK
@given(TRAIN_JOB, RUNTIME)
def test_the_order_of_fields_makes_no_difference(spec: Any, runtime: Any) -> None:
    pair, other = read(spec, runtime, "job"), read(reordered(spec), reordered(runtime), "job")
    assert (pair is None) == (other is None)
    if pair and other:
        one, two = render(*pair, CONTEXT), render(*other, CONTEXT)
        if isinstance(one, Rendered):
            assert one == two
        else:
            assert isinstance(two, Rejected)
            assert set(one.errors) == set(two.errors)


@pytest.mark.slow
@QUICK
@given(TRAIN_JOB, RUNTIME)
def test_what_was_rendered_belongs_to_the_caller(spec: Any, runtime: Any) -> None:
    pair = read(spec, runtime, "job")
    result = render(*pair, CONTEXT) if pair else None
    if pair and isinstance(result, Rendered):
        kept = deepcopy(result.objects)
        for body in result.objects:
            emptied(body)
        again = render(*pair, CONTEXT)
        assert isinstance(again, Rendered)
        assert again.objects == kept


@pytest.mark.slow
@QUICK
@given(TRAIN_JOB, RUNTIME)
def test_the_snapshot_renders_the_same(spec: Any, runtime: Any) -> None:
    pair = read(spec, runtime, "job")
    result = render(*pair, CONTEXT) if pair else None
    if pair and isinstance(result, Rendered) and result.objects:
        stored = read_snapshot(result.objects[0], pair[0])
        again = render(pair[0], stored, CONTEXT)
        assert isinstance(again, Rendered)
        assert again.objects == result.objects


@pytest.mark.slow
@QUICK
@given(st.tuples(TRAIN_JOB, RUNTIME), st.data())
def test_every_damaged_input_gets_an_answer(bodies: tuple[Any, Any], data: st.DataObject) -> None:
    damaged: Any = deepcopy(list(bodies))
    for _ in range(data.draw(st.integers(1, 3))):
        spots = list(places(damaged))
        parent, key = spots[data.draw(st.integers(0, len(spots) - 1))]
        parent[key] = data.draw(ODD)
    answered(damaged[0], damaged[1], "job")
