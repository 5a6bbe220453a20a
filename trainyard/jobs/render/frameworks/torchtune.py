"""torchtune: recipe, configuration and command of a TrainJob.

A TrainJob whose trainer command is ``tune run`` specifies neither recipe nor configuration. The numbers of nodes and
devices and the LoRA arguments determine the recipe, the model of the runtime the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, TORCHTUNE_MODEL_ANNOTATION, TRAINER_PORT
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import gpu_count, node_resources
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.resolved_job import ResolvedJob

_ENTRYPOINT: Final = ["tune", "run"]
_CONFIG: Final = "--config"
_RUNTIME_NAME: Final = "spec.runtimeRef.name"

_LLAMA_1B: Final = "llama3_2/1B"
_LLAMA_3B: Final = "llama3_2/3B"
_LLAMA_70B: Final = "llama3_3/70B"
_QWEN: Final = "qwen2_5/1.5B"
_SMALL_LLAMAS: Final = (_LLAMA_1B, _LLAMA_3B)
_SMALL_CONFIGS: Final = frozenset({"full", "full_single_device", "lora", "lora_single_device"})
_CONFIGS: Final[Mapping[str, frozenset[str]]] = {
    _LLAMA_1B: _SMALL_CONFIGS | {"qlora_single_device"},
    _LLAMA_3B: _SMALL_CONFIGS | {"qlora_single_device"},
    _LLAMA_70B: frozenset({"full", "full_multinode", "lora", "qlora"}),
    _QWEN: _SMALL_CONFIGS,
}
"""Supported models, and their configurations in torchtune 0.6."""

_MANAGED: Final = frozenset({"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"})
"""Settings that are managed by the runtime: paths in its volumes."""

_FULL: Final = "full"
_LORA: Final = "lora"
_QLORA: Final = "qlora"
_LORA_MODULES: Final = "model.lora_attn_modules"
_QUANTIZE: Final = "model.quantize_base"
_DORA: Final = "model.use_dora"
_RELEASE: Final = re.compile(r"-[0-9]+\.[0-9]+$")


@dataclass(frozen=True)
class _Recipe:
    """A recipe of torchtune, and its configuration.

    Parameters
    ----------
    name
        Name of the recipe.
    config
        Name of the configuration without the model, such as ``lora_single_device``.
    """

    name: str
    config: str

    @property
    def distributed(self) -> bool:
        """Whether torchrun starts the recipe; torchtune rejects torchrun options for other recipes."""
        return self.name.endswith("_distributed")


_SINGLE_DEVICE: Final = {
    _FULL: _Recipe("full_finetune_single_device", "full_single_device"),
    _LORA: _Recipe("lora_finetune_single_device", "lora_single_device"),
    _QLORA: _Recipe("lora_finetune_single_device", "qlora_single_device"),
}
_ONE_NODE: Final = {
    _FULL: _Recipe("full_finetune_distributed", "full"),
    _LORA: _Recipe("lora_finetune_distributed", "lora"),
    _QLORA: _Recipe("lora_finetune_distributed", "qlora"),
}
_MANY_NODES: Final = _Recipe("full_finetune_distributed", "full_multinode")


def is_torchtune(job: JobView) -> bool:
    """Return whether the platform selects recipe and configuration of the TrainJob."""
    return job.spec.trainer is not None and job.spec.trainer.command == _ENTRYPOINT


def check_torchtune(job: ResolvedJob, processes: str) -> Iterator[Finding]:
    """Yield unsupported models and methods, and arguments that are managed by the runtime.

    Parameters
    ----------
    processes
        Requested processes per node: a number or a word. The number of cores does not count here, as upstream: one
        process without a GPU is no single device for QLoRA.
    """
    model, method, recipe = _model(job), _method(job), _recipe(job, processes)
    if model not in _CONFIGS:
        yield Finding(
            _RUNTIME_NAME,
            f"must have a supported pretrained model, invalid model configured: {model}",
            f"use a runtime of one of {', '.join(_CONFIGS)}, named like torchtune-llama3.2-1b "
            f"or annotated {TORCHTUNE_MODEL_ANNOTATION}",
        )
    else:
        yield from _model_findings(job, model, recipe)
    if _nodes(job) > 1 and method != _FULL:
        yield Finding(
            "spec.trainer.numNodes",
            "LoRA fine-tuning is not supported for multi-node training in TorchTune",
            "set numNodes to 1, or remove the LoRA arguments",
        )
    trainer = job.spec.trainer
    for index, argument in enumerate((trainer.args if trainer else None) or ()):
        key = _key(argument)
        if key in _MANAGED:
            yield Finding(
                f"spec.trainer.args[{index}]",
                f'must not set immutable config "{key}" in trainer args; it is managed by the runtime',
                "remove it",
            )


def torchtune_warnings(job: ResolvedJob, processes: str) -> Iterator[Finding]:
    """Yield missing configurations, and process counts that have no effect on a single device."""
    model, recipe = _model(job), _recipe(job, processes)
    usable = model in _CONFIGS and next(_model_findings(job, model, recipe), None) is None
    if usable and recipe.config not in _CONFIGS[model]:
        yield Finding.warning(
            "spec.trainer.command",
            f"torchtune 0.6 has no configuration {model}_{recipe.config}",
            "change numProcPerNode or the GPUs in resourcesPerNode, or use an image with a release that has it",
        )
    if not recipe.distributed and processes.isdigit() and int(processes) > 1:
        yield Finding.warning(
            "spec.trainer.numProcPerNode",
            f"{processes} has no effect: a node with one GPU trains in one process",
            "set it to 1, or request more GPUs in resourcesPerNode",
        )


def set_command(builder: JobSetBuilder, processes: str, first_node: str) -> None:
    """Complete the TrainJob's command with rendezvous, recipe, configuration and settings of the runtime.

    Parameters
    ----------
    processes
        Resolved processes per node.
    first_node
        Host name of the first node, the rendezvous endpoint.
    """
    if not _has_container(builder):
        return
    recipe = _recipe(builder, processes)
    rendezvous = [f"--rdzv_endpoint={first_node}:{TRAINER_PORT}"] if recipe.distributed else []
    config = f"{_model(builder)}_{recipe.config}"
    command = [*_ENTRYPOINT, *rendezvous, recipe.name, _CONFIG, config, *_runtime_settings(builder)]
    builder.command = command


def _model_findings(job: ResolvedJob, model: str, recipe: _Recipe) -> Iterator[Finding]:
    if _nodes(job) > 1 and model != _LLAMA_70B:
        yield Finding("spec.trainer.numNodes", f"must be 1 for {model} model", "set it to 1")
    if recipe.config.startswith(_QLORA) and model == _QWEN:
        yield Finding(_RUNTIME_NAME, f"QLoRA is not supported for {model} model", f"remove argument {_QUANTIZE}")
    if recipe.config == _QLORA and model in _SMALL_LLAMAS:
        yield Finding(
            "spec.trainer.numProcPerNode",
            f"must be auto or 1 for {model} model when using QLoRA",
            "remove it, or set it to 1",
        )
        yield Finding(
            "spec.trainer.resourcesPerNode",
            f"must have gpu resource with value 1 for {model} model when using QLoRA",
            "request one GPU",
        )


def _model(job: JobView) -> str:
    """Return the model as in torchtune's configurations, from the annotation of the runtime, otherwise from its name.

    The name is ``torchtune-<family>-<size>``; a release suffix is ignored.
    """
    annotated = (job.runtime.metadata.annotations or {}).get(TORCHTUNE_MODEL_ANNOTATION)
    if annotated is not None:
        return annotated
    return named_model(job.spec.runtime_ref.name)


def named_model(runtime: str) -> str:
    """Return the model in the name of a runtime; empty: the name contains none."""
    parts = _RELEASE.sub("", runtime).split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def _recipe(job: JobView, processes: str) -> _Recipe:
    if _nodes(job) > 1:
        return _MANY_NODES
    single = processes == "1" or ceil(gpu_count(_resources(job))) == 1
    return (_SINGLE_DEVICE if single else _ONE_NODE)[_method(job)]


def _resources(job: JobView) -> Body:
    """Return the resources of a training node, by the name ``node`` if no replicatedJob has the trainer's label."""
    if job.trainer is not None:
        return node_resources(job)
    node = job.pod_set(CONTAINER_NODE)
    resources: Body = ((node.container(CONTAINER_NODE) if node else None) or {}).get("resources", {})
    return resources


def _method(job: JobView) -> str:
    """Return the fine-tuning method; DoRA counts as LoRA, quantized or not."""
    settings = _settings([*_runtime_settings(job), *_arguments(job)])
    if _is_true(settings, _QUANTIZE) and not _is_true(settings, _DORA):
        return _QLORA
    return _LORA if _LORA_MODULES in settings else _FULL


def _nodes(job: JobView) -> int:
    if job.trainer is not None:
        return job.trainer.count
    return (job.spec.trainer.num_nodes if job.spec.trainer else None) or 1


def _has_container(job: JobView) -> bool:
    return job.trainer is not None and job.trainer.main_container is not None


def _arguments(job: JobView) -> Sequence[str]:
    """Return the arguments of the container: those of the TrainJob, otherwise of the runtime."""
    trainer = job.spec.trainer
    if trainer is not None and trainer.args is not None:
        return trainer.args
    container = job.trainer.main_container if job.trainer else None
    arguments: list[str] = (container or {}).get("args", [])
    return arguments


def _runtime_settings(job: JobView) -> list[str]:
    """Return the settings of the runtime's command that are kept.

    Managed settings are always kept. Others are kept unless the arguments set the same key, or select another component
    for its group (``dataset=...`` for ``dataset.source=...``).
    """
    container = job.trainer.main_container if job.trainer else None
    command: list[str] = (container or {}).get("command", [])
    first = command.index(_CONFIG) + 2 if _CONFIG in command else len(command)
    own, given = _settings(command[first:]), _settings(_arguments(job))
    return [
        item
        for index, item in enumerate(command)
        if _key(item) in _MANAGED or (index >= first and _is_kept(item, own, given))
    ]


def _is_kept(item: str, own: Mapping[str, str], given: Mapping[str, str]) -> bool:
    if item.startswith("-") or not ("=" in item or item.startswith("~")):
        return False
    key = _key(item).removeprefix("~")
    group = key.partition(".")[0]
    return key not in given and (group not in given or given[group] == own.get(group))


def _settings(items: Sequence[str]) -> dict[str, str]:
    """Return settings by key; of duplicates, torchtune uses the last."""
    return {_key(item): item.partition("=")[2].strip() for item in items if "=" in item}


def _key(item: str) -> str:
    return item.partition("=")[0].strip()


def _is_true(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "").lower() == "true"
