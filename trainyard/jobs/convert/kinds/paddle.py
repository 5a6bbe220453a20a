"""PaddleJob of the training operator."""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import CONTAINER_NODE
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.operator_roles import Roles, require
from trainyard.jobs.convert.run_policy import read_run_policy
from trainyard.jobs.convert.variables import UNBUFFERED, Variable, literal, note_legacy_hosts, set_variables
from trainyard.jobs.render.pod_editing import field_ref_env

_ROLES: Final = Roles("spec.paddleReplicaSpecs", "paddle", "OnFailure", "paddlejob-controller")
_SERVER: Final = "ps"
_ELASTIC: Final = "spec.elasticPolicy"
_ELASTIC_FIELDS: Final = ("minReplicas", "maxReplicas", "maxRestarts", "metrics")


def convert(draft: Draft) -> None:
    """Convert a PaddleJob to a draft: workers alone train collectively; masters turn them into parameter servers."""
    source = draft.source
    servers = _ROLES.read(draft, "Master", _SERVER)
    node = require(draft, _ROLES, _ROLES.read(draft, "Worker", CONTAINER_NODE), "Worker")
    draft.framework, draft.policy, draft.nodes = "paddle", {"paddle": {}}, node.pods
    draft.train(node)
    own = Variable("POD_IP_DUMMY", field_ref_env("POD_IP_DUMMY", "status.podIP"))
    set_variables(source, node, [own, literal("PADDLE_TRAINER_NUM", 1)], always=False)
    if servers is not None:
        servers.pod["containers"].sort(key=lambda container: container["name"] != servers.main)
        set_variables(source, servers, [own, literal("PADDLE_SERVER_NUM", 1)], always=False)
        message = "replicatedJob ps: parameter servers by PADDLE_SERVERS_ENDPOINTS; the job ends with its workers"
        source.changed(f"{servers.role}.replicas", message)
    source.keys(_ELASTIC)
    for name in _ELASTIC_FIELDS:
        source.same(f"{_ELASTIC}.{name}", "without effect, as for the training operator: the replicas run")
    for part in draft.parts:
        set_variables(source, part, [UNBUFFERED], always=True)
        old = [f"{source.peek('metadata.name')}-{role}-" for role in ("master", "worker")]
        note_legacy_hosts(source, part, old, part.first_host(draft.name))
    read_run_policy(draft)


CONVERTERS: Final = {("kubeflow.org/v1", "PaddleJob"): convert}
