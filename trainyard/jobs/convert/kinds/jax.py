"""JAXJob of the training operator."""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import CONTAINER_NODE, TRAINER_PORT
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.operator_roles import Roles, require
from trainyard.jobs.convert.run_policy import read_run_policy
from trainyard.jobs.convert.variables import UNBUFFERED, indexed, literal, note_legacy_hosts, referred, set_variables

_ROLES: Final = Roles("spec.jaxReplicaSpecs", "jax", "Never", "jaxjob-controller", (), leads=True)


def convert(draft: Draft) -> None:
    """Convert a JAXJob to a draft."""
    node = require(draft, _ROLES, _ROLES.read(draft, "Worker", CONTAINER_NODE), "Worker")
    draft.framework, draft.policy, draft.nodes = "jax", {"jax": {}}, node.pods
    draft.train(node)
    first = node.first_host(draft.name)
    variables = [
        literal("COORDINATOR_ADDRESS", first),
        literal("COORDINATOR_PORT", TRAINER_PORT),
        referred(literal("NUM_PROCESSES", node.pods), "JAX_NUM_PROCESSES"),
        referred(indexed("PROCESS_ID"), "JAX_PROCESS_ID"),
        UNBUFFERED,
    ]
    set_variables(draft.source, node, variables, always=True)
    note_legacy_hosts(draft.source, node, [f"{draft.source.peek('metadata.name')}-worker-"], first)
    read_run_policy(draft)


CONVERTERS: Final = {("kubeflow.org/v1", "JAXJob"): convert}
