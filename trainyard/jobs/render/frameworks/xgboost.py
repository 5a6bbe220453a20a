"""XGBoost: DMLC_* environment of the Rabit tracker."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import JOB_COMPLETION_INDEX_FIELD, TRAINER_PORT
from trainyard.api.kubernetes_model import KubernetesModel
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import gpu_count, node_resources
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.hosts import host
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import add_ports, field_ref_env, prepend_env
from trainyard.jobs.render.resolved_job import ResolvedJob

_TRACKER: Final = "DMLC_TRACKER_URI"
_TRACKER_PORT: Final = "DMLC_TRACKER_PORT"
_TASK: Final = "DMLC_TASK_ID"
_WORKERS: Final = "DMLC_NUM_WORKER"


class XgboostPolicy(KubernetesModel):
    """XGBoost: environment of its tracker."""


class Xgboost(Framework[XgboostPolicy]):
    """One XGBoost worker per node, or one per GPU; the tracker runs on the first node."""

    name = "xgboost"
    order = 40
    catalog_runtime = "xgboost-distributed"
    summary = "XGBoost."
    policy_model = XgboostPolicy
    variables = (_TRACKER, _TRACKER_PORT, _TASK, _WORKERS)

    ranks = ("RANK", "DMLC_RANK", "DMLC_WORKER_ID", _TASK)
    sizes = ("WORLD_SIZE", _WORKERS)

    reserved = frozenset({_TRACKER, _TRACKER_PORT, _TASK, _WORKERS})

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield reserved variables that the TrainJob sets."""
        trainer = job.spec.trainer
        for index, variable in enumerate((trainer.env if trainer else None) or ()):
            name = variable.get("name")
            if name in self.reserved:
                yield Finding(
                    f"spec.trainer.env[{index}]",
                    f"{name} is reserved for the XGBoost runtime",
                    "remove it: it is set for every job of this runtime",
                )

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Insert the variables at the front, so that later ones can refer to them."""
        nodes = builder.trainer
        container = nodes.main_container if nodes else None
        if nodes is None or container is None:
            return ()
        workers_per_node = max(1, ceil(gpu_count(node_resources(builder))))
        prepend_env(
            container,
            [
                {"name": _TRACKER, "value": host(builder, nodes)},
                {"name": _TRACKER_PORT, "value": str(TRAINER_PORT)},
                field_ref_env(_TASK, JOB_COMPLETION_INDEX_FIELD),
                {"name": _WORKERS, "value": str(nodes.count * workers_per_node)},
            ],
        )
        add_ports(container)
        return ()


FRAMEWORK: Final = Xgboost()
