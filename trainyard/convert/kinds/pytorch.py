"""PyTorchJob of the training operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import TRAINER_PORT
from trainyard.convert.draft import Draft
from trainyard.convert.field_finding import Fidelity, FieldFinding
from trainyard.convert.operator_roles import Roles
from trainyard.convert.part import Part, require_pod_count
from trainyard.convert.ranked import merge, note_former_hosts, read_ranked
from trainyard.convert.run_policy import read_run_policy, succeed_with_role
from trainyard.convert.source import shown
from trainyard.convert.torch_environment import (
    fixed_nodes,
    number_of_processes,
    set_node_variables,
    set_role_variables,
)
from trainyard.convert.variables import Variable, literal
from trainyard.render.pod_editing import prepend_env, upsert_env

__all__ = ["CONVERTERS", "convert"]

_ROLES: Final = Roles("spec.pytorchReplicaSpecs", "pytorch", "OnFailure", "pytorchjob-controller", leads=True)
_ELASTIC: Final = "spec.elasticPolicy"
_PROCESSES: Final = "spec.nprocPerNode"
_AUTO: Final = "auto"
_WORDS: Final = (_AUTO, "cpu", "gpu")
_MASTER_PORT: Final = 23456
_BACKEND: Final = "PET_RDZV_BACKEND"
_ENDPOINT: Final = "PET_RDZV_ENDPOINT"
_ID: Final = "PET_RDZV_ID"
_CONF: Final = "PET_RDZV_CONF"
_RESTARTS: Final = "PET_MAX_RESTARTS"


def convert(draft: Draft) -> None:
    """Convert a PyTorchJob to a draft."""
    source = draft.source
    draft.framework = "torch"
    master, worker = read_ranked(draft, _ROLES)
    source.keys(_ELASTIC)
    elastic = source.peek(_ELASTIC) is not None
    stated = _stated_processes(draft)
    own = source.integer(f"{_ELASTIC}.nProcPerNode", 1)
    # The operator sets both variables, and the last one of a name counts.
    processes = own or stated or _AUTO
    had_master = master is not None
    node = merge(draft, master, worker)
    if node is not None:
        draft.policy = {"torch": {}}
        if isinstance(processes, int):
            draft.processes = processes
        elif stated is not None:
            draft.policy["torch"]["numProcPerNode"] = processes
        if elastic:
            _read_elastic(draft, node, (worker or node).role, led=had_master)
        set_node_variables(draft, node, number_of_processes(processes), always=had_master and not elastic)
    elif master is not None and worker is not None:
        succeed_with_role(draft, master)
        if elastic:
            _read_fixed(draft, [master, worker], led=True)
        set_role_variables(draft, master, worker, processes, _port(master))
    _note_processes(draft, stated, own)
    note_former_hosts(draft)
    read_run_policy(draft)


def _stated_processes(draft: Draft) -> int | str | None:
    """Return the processes per node of the job; None if unset."""
    found = draft.source.text(_PROCESSES)
    if found is None or found in _WORDS:
        return found
    if not found.isdecimal() or int(found) < 1:
        raise draft.source.malformed(_PROCESSES, f"must be auto, cpu, gpu or a number, but is {shown(found)}")
    return int(found)


def _note_processes(draft: Draft, stated: int | str | None, own: int | None) -> None:
    source = draft.source
    if own is not None and stated not in (None, own):
        source.changed(_PROCESSES, f"nProcPerNode of {_ELASTIC} counts, as for the operator")
    else:
        source.same(_PROCESSES, "numProcPerNode of the TrainJob's trainer, or of mlPolicy.torch for a word")
    source.same(f"{_ELASTIC}.nProcPerNode", "TrainJob spec.trainer.numProcPerNode")


def _read_elastic(draft: Draft, node: Part, role: str, *, led: bool) -> None:
    """Read the elastic policy: a range of nodes if the operator scaled the job by metrics, else the replicas."""
    source = draft.source
    count = fixed_nodes(node)
    if not source.peek(f"{_ELASTIC}.metrics") or count is not None:
        _read_fixed(draft, [node], led=led)
        return
    least, most = _bounds(draft)
    workers = source.peek(f"{role}.replicas") or 1
    policy: Body = {"minNodes": least or most or workers, "maxNodes": most or least or workers}
    require_pod_count(source, f"{_ELASTIC}.maxReplicas", policy["maxNodes"])
    source.same(f"{_ELASTIC}.minReplicas", "torch.elasticPolicy.minNodes")
    source.same(f"{_ELASTIC}.maxReplicas", "torch.elasticPolicy.maxNodes")
    if policy["maxNodes"] != workers:
        source.changed(f"{role}.replicas", "all nodes up to maxNodes join as soon as there is room")
    restarts = source.integer(f"{_ELASTIC}.maxRestarts")
    if restarts is not None:
        policy["maxRestarts"] = restarts
        source.same(f"{_ELASTIC}.maxRestarts", "torch.elasticPolicy.maxRestarts")
    source.items(f"{_ELASTIC}.metrics")
    source.lost(f"{_ELASTIC}.metrics", "nothing scales by metrics: nodes join as capacity allows", "set maxNodes")
    _note_backend(draft)
    for name in ("rdzvHost", "rdzvPort", "rdzvId"):
        source.changed(f"{_ELASTIC}.{name}", f"the nodes meet at the first one, port {TRAINER_PORT}, by the job's name")
    if pairs := _configuration(draft):
        upsert_env(node.container, [pairs])
    draft.nodes, node.pods = None, policy["maxNodes"]
    draft.policy["torch"]["elasticPolicy"] = policy


def _read_fixed(draft: Draft, parts: Sequence[Part], *, led: bool) -> None:
    """Read the elastic policy of a job with a fixed number of pods: the rendezvous of torchrun stays dynamic."""
    source = draft.source
    least, most = _bounds(draft)
    message = "numNodes is the number of replicas: without metrics, the operator adds none"
    if source.items(f"{_ELASTIC}.metrics"):
        message = "the command has a fixed number of nodes"
        source.lost(f"{_ELASTIC}.metrics", message, "remove --nnodes from the command if nodes may join")
    for name, bound in (("minReplicas", least), ("maxReplicas", most)):
        if bound == draft.pods:
            source.same(f"{_ELASTIC}.{name}", "TrainJob spec.trainer.numNodes")
        else:
            source.changed(f"{_ELASTIC}.{name}", message, "use torch.elasticPolicy if it can start with fewer")
    _note_backend(draft)
    variables = [
        literal(_BACKEND, "c10d"),
        _endpoint(draft, parts[0]),
        literal(_ID, source.text(f"{_ELASTIC}.rdzvId") or draft.name),
    ]
    source.same(f"{_ELASTIC}.rdzvId", f"variable {_ID}")
    restarts = source.integer(f"{_ELASTIC}.maxRestarts")
    if restarts is not None:
        variables.append(literal(_RESTARTS, restarts))
        source.same(f"{_ELASTIC}.maxRestarts", f"variable {_RESTARTS}")
    for part in parts:
        prepend_env(part.container, [each.for_container(part.container, part) for each in variables])
    if pairs := _configuration(draft):
        for part in parts:
            upsert_env(part.container, [pairs])
    if not led and draft.pods > 1:
        note = "the job has succeeded when all nodes have, not with the first one"
        source.notes.append(FieldFinding.of(_ELASTIC, None, Fidelity.CHANGED, note))


def _endpoint(draft: Draft, first: Part) -> Variable:
    """Return the variable with host and port of the first node."""
    source = draft.source
    port = source.integer(f"{_ELASTIC}.rdzvPort", 1) or TRAINER_PORT
    source.same(f"{_ELASTIC}.rdzvPort", f"port of the variable {_ENDPOINT}")
    source.changed(f"{_ELASTIC}.rdzvHost", "the nodes meet at the first one")
    return literal(_ENDPOINT, f"{first.first_host(draft.name)}:{port}")


def _bounds(draft: Draft) -> tuple[int | None, int | None]:
    least, most = (draft.source.integer(f"{_ELASTIC}.{name}Replicas", 1) for name in ("min", "max"))
    if least and most and least > most:
        raise draft.source.malformed(f"{_ELASTIC}.maxReplicas", f"is less than minReplicas {least}")
    return least, most


def _note_backend(draft: Draft) -> None:
    source = draft.source
    if source.text(f"{_ELASTIC}.rdzvBackend") == "c10d":
        source.same(f"{_ELASTIC}.rdzvBackend", _BACKEND)
    else:
        source.changed(f"{_ELASTIC}.rdzvBackend", "c10d: the nodes meet at the first one, without etcd")
    if source.flag(f"{_ELASTIC}.standalone"):
        source.lost(f"{_ELASTIC}.standalone", "every node joins the others", "use one node without an elastic policy")
    else:
        source.same(f"{_ELASTIC}.standalone", "every node joins the others")


def _configuration(draft: Draft) -> Body | None:
    """Return the variable with the configuration of the rendezvous; None if unset."""
    source = draft.source
    pairs = []
    for index, entry in enumerate(source.items(f"{_ELASTIC}.rdzvConf")):
        if set(entry) - {"key", "value"}:
            raise source.malformed(f"{_ELASTIC}.rdzvConf[{index}]", "has key and value only")
        pairs.append(f"{entry.get('key', '')}={entry.get('value', '')}")
    source.changed(f"{_ELASTIC}.rdzvConf", f"variable {_CONF} of the container")
    return {"name": _CONF, "value": ",".join(pairs)} if pairs else None


def _port(master: Part) -> int:
    ports = master.container.get("ports", ())
    return next((port["containerPort"] for port in ports if port.get("name") == "pytorchjob-port"), _MASTER_PORT)


CONVERTERS: Final = {("kubeflow.org/v1", "PyTorchJob"): convert}
