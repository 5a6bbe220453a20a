"""Supported kinds of legacy jobs. To add one, create a module here and add its line below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.convert.conversion import Converter
from trainyard.convert.kinds.jax import convert as jax_job
from trainyard.convert.kinds.mpi import convert as mpi_job
from trainyard.convert.kinds.paddle import convert as paddle_job
from trainyard.convert.kinds.pytorch import convert as pytorch_job
from trainyard.convert.kinds.ray import convert_cluster as ray_cluster
from trainyard.convert.kinds.ray import convert_job as ray_job
from trainyard.convert.kinds.spark import convert as spark_application
from trainyard.convert.kinds.tensorflow import convert as tensorflow_job
from trainyard.convert.kinds.volcano import convert as volcano_job
from trainyard.convert.kinds.xgboost import convert as xgboost_job

__all__ = ["KINDS", "converter_of"]

KINDS: Final[Mapping[tuple[str, str], Converter]] = {
    ("kubeflow.org/v1", "PyTorchJob"): pytorch_job,
    ("kubeflow.org/v1", "TFJob"): tensorflow_job,
    ("kubeflow.org/v1", "MPIJob"): mpi_job,
    ("kubeflow.org/v2beta1", "MPIJob"): mpi_job,
    ("kubeflow.org/v1", "XGBoostJob"): xgboost_job,
    ("kubeflow.org/v1", "PaddleJob"): paddle_job,
    ("kubeflow.org/v1", "JAXJob"): jax_job,
    ("ray.io/v1", "RayJob"): ray_job,
    ("ray.io/v1", "RayCluster"): ray_cluster,
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): spark_application,
    ("batch.volcano.sh/v1alpha1", "Job"): volcano_job,
}
"""Converters by apiVersion and kind, in the order of user-facing lists."""


def converter_of(version: str, kind: str) -> Converter | None:
    """Return the converter of a kind; None if it is not supported."""
    return KINDS.get((version, kind))
