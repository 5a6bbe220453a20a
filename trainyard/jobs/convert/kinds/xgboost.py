"""XGBoostJob of the training operator."""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import TRAINER_PORT
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.operator_roles import Roles
from trainyard.jobs.convert.ranked import merge, note_former_hosts, read_ranked
from trainyard.jobs.convert.run_policy import read_run_policy, succeed_with_role
from trainyard.jobs.convert.torch_environment import ranks
from trainyard.jobs.convert.variables import UNBUFFERED, indexed, literal, referred, set_variables
from trainyard.jobs.render.frameworks.roles import named_port

_ROLES: Final = Roles("spec.xgbReplicaSpecs", "xgboost", "Never", "xgboostjob-controller")
_PORT: Final = 9999


def convert(draft: Draft) -> None:
    """Convert an XGBoostJob to a draft."""
    source = draft.source
    draft.framework = "xgboost"
    master, worker = read_ranked(draft, _ROLES)
    node = merge(draft, master, worker)
    if node is not None:
        draft.policy = {"xgboost": {}}
        hosts = node.hosts(draft.name)
        variables = [
            referred(literal("MASTER_ADDR", hosts[0]), "DMLC_TRACKER_URI"),
            referred(literal("MASTER_PORT", TRAINER_PORT), "DMLC_TRACKER_PORT"),
            literal("WORLD_SIZE", len(hosts)),
            referred(indexed("RANK"), "DMLC_TASK_ID"),
            literal("WORKER_PORT", TRAINER_PORT),
            literal("WORKER_ADDRS", ",".join(hosts[1:])),
            UNBUFFERED,
        ]
        set_variables(source, node, variables, always=True)
    elif master is not None and worker is not None:
        succeed_with_role(draft, master)
        port = named_port(master.container, "xgboostjob-port", _PORT)
        addresses = ",".join(worker.hosts(draft.name))
        variables = [
            *ranks(master.first_host(draft.name), port, master.total + worker.total),
            literal("WORKER_PORT", port),
            literal("WORKER_ADDRS", addresses),
            UNBUFFERED,
        ]
        for part in (master, worker):
            set_variables(source, part, variables, always=True)
    note_former_hosts(draft)
    read_run_policy(draft)


CONVERTERS: Final = {("kubeflow.org/v1", "XGBoostJob"): convert}
