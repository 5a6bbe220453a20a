"""Common mistakes with each framework: changes of a guide's TrainJob, whose messages the guide shows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.docs.block_faults import of_train_job

Change = dict[str, Any]


def _trainer(**fields: Any) -> Change:
    return {"trainer": fields}


def _env(name: str) -> Change:
    return _trainer(env=[{"name": name, "value": "mine"}])


def _gpus(count: int) -> Change:
    amount = {"nvidia.com/gpu": str(count)}
    return {"requests": amount, "limits": amount}


_NO_STEP = (
    "a dataset on a runtime without a dataset initializer",
    {"initializer": {"dataset": {"storageUri": "hf://a/b"}}},
)
_SHELL = ("the whole command line in one element", _trainer(command=["python train.py"]))

MISTAKES: dict[str, tuple[tuple[str, Change], ...]] = {
    "torch": (
        ("a variable that torchrun reads", _env("PET_NNODES")),
        ("one rank for all pods", _env("RANK")),
        _SHELL,
        ("more processes than GPUs", _trainer(numProcPerNode=16)),
        _NO_STEP,
        (
            "an address whose scheme the initializer image does not support",
            {
                "runtimeRef": {"name": "torch-with-dataset"},
                "initializer": {"dataset": {"storageUri": "gs://data/wikipedia"}},
            },
        ),
        ("no nodes", _trainer(numNodes=0)),
    ),
    "torchtune": (
        ("several nodes for a model that trains on one", _trainer(numNodes=2)),
        ("an argument that the runtime sets", _trainer(args=["output_dir=/tmp"])),
        ("QLoRA on several GPUs", _trainer(args=["model.lora_attn_modules=['q_proj']", "model.quantize_base=True"])),
        ("an address without a scheme", {"initializer": {"dataset": {"storageUri": "alpaca"}}}),
    ),
    "deepspeed": (
        ("a variable that Open MPI reads", _env("OMPI_MCA_orte_default_hostfile")),
        ("more processes than GPUs", _trainer(numProcPerNode=16)),
        _NO_STEP,
    ),
    "mlx": (("a variable that Open MPI reads", _env("OMPI_MCA_plm_rsh_args")), _NO_STEP),
    "mpi": (
        ("a variable that Open MPI reads", _env("OMPI_MCA_orte_set_default_slots")),
        ("more processes than GPUs", _trainer(numProcPerNode=16)),
        ("no processes", _trainer(numProcPerNode=0)),
    ),
    "horovod": (
        ("a variable that horovodrun reads", _env("HOROVOD_HOSTFILE")),
        ("more processes than GPUs", _trainer(numProcPerNode=16)),
    ),
    "jax": (("one rank for all pods", _env("JAX_PROCESS_ID")), _SHELL, _NO_STEP),
    "xgboost": (("a variable that the tracker reads", _env("DMLC_NUM_WORKER")), _SHELL),
    "flux": (
        ("no processes", _trainer(numProcPerNode=0)),
        ("GPUs that cannot be divided evenly among the processes", _trainer(numProcPerNode=3)),
    ),
    "tensorflow": (("a variable that TensorFlow reads", _env("TF_CONFIG")), _SHELL),
    "paddle": (
        ("a variable that the launcher reads", _env("PADDLE_MASTER")),
        ("one rank for all pods", _env("PADDLE_TRAINER_ID")),
        ("more processes than GPUs", _trainer(numProcPerNode=16)),
    ),
    "ray": (("a variable that Ray reads", _env("RAY_ADDRESS")), _NO_STEP),
    "spark": (_NO_STEP, ("no nodes", _trainer(numNodes=0))),
    "plain": (_SHELL, _NO_STEP),
}
"""By framework: the mistake, and the fields of the spec that cause it."""


def answers(framework: str, job: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each mistake with ``rejected`` or ``warning``, and the message."""
    for words, change in MISTAKES[framework]:
        body = copy.deepcopy(job)
        _merge(body["spec"], change)
        became, found = of_train_job(body)
        assert found, f"{framework}: {words}: no error and no warning"
        first = (became.errors or found)[0]
        verdict = "rejected" if became.errors else "warning"
        yield words, verdict, f"`{first.path}`: {first.message}; {first.fix}"


def _merge(target: dict[str, Any], change: Change) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
