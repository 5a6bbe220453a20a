"""Known disagreements between the pods that Kueue counts and those that run, which have to disappear.

A disagreement that is not listed fails the comparison, and so does one that no longer occurs.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KNOWN"]

_BY_KIND: Final = {
    # Number of pods of a replicatedJob.
    "count": (
        "deepspeed-distributed",
        "deepspeed-distributed-gang",
        "horovod",
        "mlx-distributed",
        "mpi-distributed",
        "mpi-openmpi",
        "mpi-openmpi-gang",
        "random mpi",
        "tensorflow-ps",
        "torch-elastic",
    ),
    # Requests of one pod.
    "requests": (
        "horovod",
        "random flux",
        "random mpi",
        "random plain",
        "random torch",
        "random xgboost",
        "spark",
        "tensorflow-ps",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
    ),
    # Anything, of a TrainJob with this field, which Kueue's library of Trainer 2.1 does not know.
    "runtimePatches": (
        "random flux",
        "random jax",
        "random mpi",
        "random plain",
        "random torch",
        "random xgboost",
    ),
    # The library rejects the implementation, so Kueue makes no Workload and the job stays suspended.
    "workload": ("mpi-intel", "mpi-mpich"),
}

KNOWN: Final = frozenset((group, kind) for kind, groups in _BY_KIND.items() for group in groups)
"""Each a runtime of the catalog, or the framework of random runtimes, and what differs."""
