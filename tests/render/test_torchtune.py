"""torchtune: the command that a TrainJob of ``tune run`` becomes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    container,
    environment,
    node,
    only,
    pods,
    replicated_job,
    runtime,
    train_job,
    trainer,
    verdict,
)
from trainyard.api import Body

GPU = "nvidia.com/gpu"
LORA = "model.lora_attn_modules=[q_proj,v_proj]"
QLORA = "model.quantize_base=True"
DORA = "model.use_dora=True"
LLAMA = "torchtune-llama3.2-1b"
LARGE = "torchtune-llama3.3-70b"
QWEN = "torchtune-qwen2.5-1.5b"
ENDPOINT = "--rdzv_endpoint=job-node-0-0.job:29500"


def tune(
    *,
    args: list[str] | None = None,
    name: str = LLAMA,
    nodes: int | None = None,
    processes: int | None = None,
    gpus: int | None = None,
    cpus: str | None = None,
) -> Any:
    """Return a TrainJob that leaves recipe and configuration to the platform."""
    limits = {
        **({GPU: str(gpus)} if gpus is not None else {}),
        **({"cpu": cpus} if cpus is not None else {}),
    }
    given: Body = {
        "command": ["tune", "run"],
        "args": args,
        "numNodes": nodes,
        "numProcPerNode": processes,
        "resourcesPerNode": {"limits": limits} if limits else None,
    }
    return train_job(
        runtimeRef={"name": name}, trainer={key: value for key, value in given.items() if value is not None}
    )


def tuning(
    *command: str, model: str | None = None, nodes: int | None = None, args: list[str] | None = None, **fields: Any
) -> Any:
    """Return a runtime for torchtune."""
    node_container = container(
        **({"command": list(command)} if command else {}), **({"args": args} if args is not None else {}), **fields
    )
    policy = {"torch": {}, **({"numNodes": nodes} if nodes is not None else {})}
    of = runtime(trainer(containers=[node_container]), mlPolicy=policy)
    if model is None:
        return of
    body = of.body()
    body["metadata"]["annotations"] = {"trainyard.dev/torchtune-model": model}
    return type(of).from_body(body)


def errors(job: Any, of: Any = None) -> list[tuple[str, str]]:
    return [(finding.path, finding.message) for finding in verdict(job, of or tuning()).errors]


@pytest.mark.parametrize(
    ("job", "rendezvous", "recipe", "config"),
    [
        (tune(gpus=1), False, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (tune(gpus=1, args=[LORA]), False, "lora_finetune_single_device", "llama3_2/1B_lora_single_device"),
        (tune(gpus=1, args=[QLORA]), False, "lora_finetune_single_device", "llama3_2/1B_qlora_single_device"),
        (tune(gpus=1, args=[LORA, QLORA]), False, "lora_finetune_single_device", "llama3_2/1B_qlora_single_device"),
        (tune(gpus=1, processes=1), False, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (tune(gpus=4, processes=1), False, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (tune(gpus=1, processes=4), False, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (tune(cpus="1"), False, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (tune(), False, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (tune(cpus="8"), True, "full_finetune_distributed", "llama3_2/1B_full"),
        (tune(gpus=4), True, "full_finetune_distributed", "llama3_2/1B_full"),
        (tune(gpus=4, processes=4), True, "full_finetune_distributed", "llama3_2/1B_full"),
        (tune(gpus=4, args=[LORA]), True, "lora_finetune_distributed", "llama3_2/1B_lora"),
        (tune(gpus=4, args=[LORA, DORA, QLORA]), True, "lora_finetune_distributed", "llama3_2/1B_lora"),
        (tune(gpus=4, name=QWEN, args=[LORA]), True, "lora_finetune_distributed", "qwen2_5/1.5B_lora"),
        (tune(gpus=8, name=LARGE, args=[QLORA]), True, "lora_finetune_distributed", "llama3_3/70B_qlora"),
        (tune(gpus=8, name=LARGE), True, "full_finetune_distributed", "llama3_3/70B_full"),
        (tune(gpus=8, name=LARGE, nodes=2), True, "full_finetune_distributed", "llama3_3/70B_full_multinode"),
        (tune(name=LARGE, nodes=2, processes=1), True, "full_finetune_distributed", "llama3_3/70B_full_multinode"),
    ],
)  # fmt: skip
def test_recipe_and_configuration(job: Any, rendezvous: bool, recipe: str, config: str) -> None:
    found = node(job, tuning())
    expected = ["tune", "run", *([ENDPOINT] if rendezvous else []), recipe, "--config", config]
    assert found["command"] == expected
    assert found.get("args") == job.spec.trainer.args


@pytest.mark.parametrize(
    ("args", "config"),
    [
        ([], "full"),
        (["batch_size=32"], "full"),
        (["model.quantize_base=False", LORA], "lora"),
        (["model.quantize_base=true", DORA.replace("True", "False"), LORA], "qlora"),
        (["model.quantize_base"], "full"),
        (["model.quantize_base=True", "model.quantize_base=False"], "full"),
        ([DORA, LORA], "lora"),
    ],
)
def test_settings_count_by_their_value(args: list[str], config: str) -> None:
    assert node(tune(gpus=8, name=LARGE, args=args), tuning())["command"][-1] == f"llama3_3/70B_{config}"


def test_arguments_of_the_runtime_count_where_the_job_has_none() -> None:
    found = node(tune(gpus=4), tuning(args=[LORA]))
    assert found["command"][-1] == "llama3_2/1B_lora"
    assert found["args"] == [LORA]


@pytest.mark.parametrize(
    ("name", "annotation", "model"),
    [
        ("torchtune-llama3.2-1b", None, "llama3_2/1B"),
        ("torchtune-llama3.2-3b", None, "llama3_2/3B"),
        ("torchtune-llama3.3-70b", None, "llama3_3/70B"),
        ("torchtune-qwen2.5-1.5b", None, "qwen2_5/1.5B"),
        ("torchtune-llama3.2-1b-1.0", None, "llama3_2/1B"),
        ("torchtune-qwen2.5-1.5b-2.13", None, "qwen2_5/1.5B"),
        ("our-own", "llama3_3/70B", "llama3_3/70B"),
        ("torchtune-llama3.2-1b", "llama3_2/3B", "llama3_2/3B"),
    ],
)
def test_the_model_comes_from_the_annotation_or_the_name(name: str, annotation: str | None, model: str) -> None:
    command = node(tune(name=name, gpus=8), tuning(model=annotation))["command"]
    assert command[-1] == f"{model}_full"


@pytest.mark.parametrize(
    ("name", "annotation", "model"),
    [
        ("torchtune-llama3.2", None, ""),
        ("torchtune-llama3.2-1b-extra", None, ""),
        ("torchtune-llama3.2-7b", None, "llama3_2/7B"),
        ("torchtune-llama3.2-1b", "gemma/2B", "gemma/2B"),
        ("torchtune-llama3.2-1b", "", ""),
    ],
)
def test_other_models_are_refused(name: str, annotation: str | None, model: str) -> None:
    found = only(verdict(tune(name=name, nodes=2), tuning(model=annotation)).errors)
    assert found.path == "spec.runtimeRef.name"
    assert found.message == f"must have a supported pretrained model, invalid model configured: {model}"


SMALL_QLORA = [
    ("spec.trainer.numProcPerNode", "must be auto or 1 for llama3_2/1B model when using QLoRA"),
    ("spec.trainer.resourcesPerNode", "must have gpu resource with value 1 for llama3_2/1B model when using QLoRA"),
]
NO_QWEN_QLORA = ("spec.runtimeRef.name", "QLoRA is not supported for qwen2_5/1.5B model")
NO_MULTI_NODE_LORA = (
    "spec.trainer.numNodes",
    "LoRA fine-tuning is not supported for multi-node training in TorchTune",
)


@pytest.mark.parametrize(
    ("job", "of", "expected"),
    [
        (tune(nodes=2), None, [("spec.trainer.numNodes", "must be 1 for llama3_2/1B model")]),
        (tune(), tuning(nodes=2), [("spec.trainer.numNodes", "must be 1 for llama3_2/1B model")]),
        (tune(nodes=1), tuning(nodes=2), []),
        (tune(name=LARGE), tuning(nodes=2), []),
        (tune(name=LARGE, nodes=2, args=[LORA]), None, [NO_MULTI_NODE_LORA]),
        (tune(name=LARGE, args=[QLORA]), tuning(nodes=2), [NO_MULTI_NODE_LORA]),
        (tune(name=QWEN, gpus=1, args=[QLORA]), None, [NO_QWEN_QLORA]),
        (tune(name=QWEN, gpus=2, args=[QLORA]), None, [NO_QWEN_QLORA]),
        (tune(gpus=2, args=[QLORA]), None, SMALL_QLORA),
        (tune(cpus="4", args=[QLORA]), None, SMALL_QLORA),
        (tune(gpus=2, processes=1, args=[QLORA]), None, []),
        (tune(args=[QLORA]), tuning(resources={"limits": {GPU: "2"}}), SMALL_QLORA),
        (tune(gpus=1, args=[QLORA]), tuning(resources={"limits": {GPU: "2"}}), []),
        (tune(gpus=2, args=[QLORA, DORA]), None, []),
    ],
)  # fmt: skip
def test_what_torchtune_cannot_train_is_refused(job: Any, of: Any, expected: list[tuple[str, str]]) -> None:
    assert errors(job, of) == expected


@pytest.mark.parametrize(
    "key", ["output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"]
)
def test_settings_of_the_runtime_cannot_be_arguments(key: str) -> None:
    assert errors(tune(args=["epochs=1", f"{key}=/mine"])) == [
        ("spec.trainer.args[1]", f'must not set immutable config "{key}" in trainer args; it is managed by the runtime')
    ]


OWN = (
    "tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full",
    "dataset=torchtune.datasets.instruct_dataset", "dataset.source=parquet", "dataset.data_dir=/workspace/dataset/data",
    "output_dir=/workspace/output", "tokenizer.path=/workspace/model/tokenizer.model", "~dataset.packed", "--flag=x",
)  # fmt: skip
KEPT = ["output_dir=/workspace/output", "tokenizer.path=/workspace/model/tokenizer.model"]
DATASET = list(OWN[6:9])


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        ([], [*DATASET, *KEPT, "~dataset.packed"]),
        (["dataset.source=json", "dataset.packed=True"], [DATASET[0], DATASET[2], *KEPT]),
        (["dataset=torchtune.datasets.chat_dataset"], KEPT),
        ([DATASET[0]], [*DATASET[1:], *KEPT, "~dataset.packed"]),
    ],
)
def test_settings_of_the_runtimes_command_hold_unless_the_arguments_say_otherwise(
    args: list[str], kept: list[str]
) -> None:
    command = node(tune(gpus=2, args=args), tuning(*OWN))["command"]
    assert command == ["tune", "run", ENDPOINT, "full_finetune_distributed", "--config", "llama3_2/1B_full", *kept]


def test_a_runtime_that_runs_something_else_gives_only_its_own_settings() -> None:
    command = node(tune(gpus=1), tuning("env", "A=1", "batch_size=32", "output_dir=/out"))["command"]
    assert command[5:] == ["output_dir=/out"]


def test_torchtune_meets_by_its_command_and_not_by_the_environment() -> None:
    found = node(tune(gpus=4), tuning())
    assert list(environment(found)) == ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"]
    assert found["ports"] == [{"containerPort": 29500, "protocol": "TCP"}]


def test_elastic_recipes_meet_by_the_environment_too() -> None:
    of = runtime(trainer(), mlPolicy={"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 4}}})
    found = node(tune(name=LARGE, gpus=8), of)
    assert found["command"][2:] == [ENDPOINT, "full_finetune_distributed", "--config", "llama3_3/70B_full_multinode"]
    assert environment(found)["PET_NNODES"] == "1:4"
    assert environment(found)["PET_RDZV_BACKEND"] == "c10d"


def test_injection_targets_of_torchtune_meet_by_the_environment() -> None:
    injection = {"targets": [{"jobName": "node", "containerNames": ["check"]}]}
    job = trainer(pod={"initContainers": [container("check")]})
    of = runtime(job, mlPolicy={"torch": {"envInjection": injection}})
    checks = pods(tune(gpus=4), of)["node"]["spec"]["initContainers"]
    assert environment(checks[0])["PET_MASTER_ADDR"] == "job-node-0-0.job"


def test_other_commands_are_left_alone() -> None:
    job = train_job(trainer={"command": ["tune", "run", "my_recipe"], "args": ["output_dir=/x"]})
    found = node(job, tuning(*OWN))
    assert found["command"] == ["tune", "run", "my_recipe"]
    assert "PET_MASTER_ADDR" in environment(found)


@pytest.mark.parametrize(
    ("job", "path", "text"),
    [
        (tune(name=LARGE, gpus=1), "spec.trainer.command", "no configuration llama3_3/70B_full_single_device"),
        (tune(gpus=1, processes=4), "spec.trainer.numProcPerNode", "4 has no effect"),
    ],
)
def test_commands_that_torchtune_would_not_run_as_meant_are_warned_of(job: Any, path: str, text: str) -> None:
    found = only(verdict(job, tuning()).warnings)
    assert found.path == path
    assert text in found.message


def test_the_job_is_not_changed_by_rendering() -> None:
    job = tune(gpus=4)
    before = job.body()
    node(job, tuning(*OWN))
    assert job.body() == before


def test_qlora_without_a_gpu_is_rejected_unless_one_process_is_asked_for() -> None:
    errors = verdict(tune(cpus="1", args=[QLORA]), tuning()).errors
    assert [error.path for error in errors] == ["spec.trainer.numProcPerNode", "spec.trainer.resourcesPerNode"]
    assert verdict(tune(cpus="1", processes=1, args=[QLORA]), tuning()).allowed


def test_nodes_and_their_gpus_count_without_the_label_of_the_trainer() -> None:
    of = runtime(replicated_job("node", containers=[container(resources={"limits": {GPU: 1}})]), mlPolicy={"torch": {}})
    assert verdict(tune(args=[QLORA]), of).errors == ()
    errors = verdict(tune(nodes=2), of).errors
    assert [error.path for error in errors] == ["spec.trainer.numNodes"]
