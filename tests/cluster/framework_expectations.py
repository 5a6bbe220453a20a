"""What the pods of each framework are expected to have got, as tables, and how a pod is known to belong to a gang."""

from __future__ import annotations

from typing import Any

from tests.cluster.framework_cells import Cell
from trainyard.api.constants import GROUP_NAME_ANNOTATION
from trainyard.jobs.render.gangs.coscheduling import COSCHEDULING_LABEL
from trainyard.jobs.render.gangs.kai import KAI_QUEUE_LABEL

OPEN_MPI = "OMPI_MCA_orte_default_hostfile"
HOST_FILES = {
    "deepspeed": (OPEN_MPI, "{} slots=1", ("launcher", "node")),
    "mlx": (OPEN_MPI, "{} slots=1", ("launcher", "node")),
    "openmpi": (OPEN_MPI, "{} slots=2", ("launcher", "node")),
    "openmpi-alone": (OPEN_MPI, "{} slots=4", ("launcher",)),
    "openmpi-workers": (OPEN_MPI, "{} slots=1", ("node",)),
    "intel": ("I_MPI_HYDRA_HOST_FILE", "{}:1", ("launcher", "node")),
    "intel-alone": ("I_MPI_HYDRA_HOST_FILE", "{}:1", ("launcher",)),
    "intel-workers": ("I_MPI_HYDRA_HOST_FILE", "{}:1", ("node",)),
    "mpich": ("HYDRA_HOST_FILE", "{}:1", ("launcher", "node")),
    "mpich-alone": ("HYDRA_HOST_FILE", "{}:1", ("launcher",)),
    "mpich-workers": ("HYDRA_HOST_FILE", "{}:1", ("node",)),
    "horovod": ("HOROVOD_HOSTFILE", "{} slots=2", ("launcher", "node")),
    "resumed": (OPEN_MPI, "{} slots=1", ("launcher", "node")),
}
"""By job: the variable that names the host file, its lines, and which replicatedJobs it lists."""
SHORT_LAUNCHERS = ("intel", "intel-alone")
"""Jobs whose launcher is listed by its host name alone."""
LAYOUTS = {
    "ray": ({"head": 1, "node": 2}, "head", "head", "head", 3),
    "ray-together": ({"node": 2}, "node", "node", "node", 2),
    "ray-launcher": ({"launcher": 1, "node": 2}, "launcher", "node", "launcher", 3),
    "ray-submit": ({"head": 1, "launcher": 1, "node": 2}, "head", "head", "launcher", 3),
}
"""By job: pods, who is the head, its container, who is the driver, and the number of Ray nodes."""
STEPS = {
    "dataset": ("dataset", {"STORAGE_URI": "hf://tatsu-lab/alpaca"}),
    "dataset-s3": (
        "dataset",
        {"STORAGE_URI": "s3://datasets/alpaca", "ENDPOINT": "https://minio.example.com", "REGION": "eu-1"},
    ),
    "dataset-gs": ("dataset", {"STORAGE_URI": "gs://data/alpaca"}),
    "model": ("model", {"STORAGE_URI": "hf://meta-llama/Llama-3.2-1B"}),
}
"""By job: what is fetched, and the variables of the step that does."""


def in_gang(pod: dict[str, Any], cell: Cell) -> bool:
    """Return whether a pod carries the mark by which its scheduler knows the gang."""
    metadata = pod["metadata"]
    if cell.gang == "kai":
        return str(metadata["labels"].get(KAI_QUEUE_LABEL)) == "default-queue"
    marks = metadata.get("annotations", {}).get(GROUP_NAME_ANNOTATION), metadata["labels"].get(COSCHEDULING_LABEL)
    return cell.job in marks
