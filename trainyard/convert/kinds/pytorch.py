"""PyTorchJob of the training operator."""

from __future__ import annotations

from typing import Final

from trainyard.api import Body
from trainyard.api.constants import TRAINER_PORT
from trainyard.convert.draft import Draft
from trainyard.convert.operator_roles import Roles
from trainyard.convert.part import Part, require_pod_count
from trainyard.convert.ranked import merge, note_former_hosts, read_ranked
from trainyard.convert.run_policy import read_run_policy
from trainyard.convert.source import shown
from trainyard.convert.torch_environment import number_of_processes, set_node_variables, set_role_variables
from trainyard.render.pod_editing import upsert_env

__all__ = ["CONVERTERS", "convert"]

_ROLES: Final = Roles("spec.pytorchReplicaSpecs", "pytorch", "OnFailure", "pytorchjob-controller", leads=True)
_ELASTIC: Final = "spec.elasticPolicy"
_WORDS: Final = ("auto", "cpu", "gpu")
_MASTER_PORT: Final = 23456
_CONF: Final = "PET_RDZV_CONF"


def convert(draft: Draft) -> None:
    """Convert a PyTorchJob to a draft."""
    source = draft.source
    draft.framework = "torch"
    master, worker = read_ranked(draft, _ROLES)
    elastic = bool(source.mapping(_ELASTIC))
    processes = _processes(draft)
    if elastic:
        processes = _elastic_processes(draft, processes)
    had_master = master is not None
    node = merge(draft, master, worker)
    if node is not None:
        draft.policy = {"torch": {}}
        if isinstance(processes, int):
            draft.processes = processes
        else:
            draft.policy["torch"]["numProcPerNode"] = processes
        if elastic:
            _read_elastic(draft, node, (worker or node).role)
        set_node_variables(draft, node, number_of_processes(processes), always=had_master and not elastic)
    elif master is not None and worker is not None:
        if elastic:
            message = "master and workers have different pods, and elastic nodes must be alike"
            source.lost(_ELASTIC, message, "give Master and Worker one template, or remove Master")
        set_role_variables(draft, master, worker, processes, _port(master))
    note_former_hosts(draft)
    read_run_policy(draft)


def _processes(draft: Draft) -> int | str:
    """Return the processes per node; torchrun's default is one."""
    path = "spec.nprocPerNode"
    found = draft.source.text(path)
    if found is None:
        return 1
    draft.source.same(path, "numProcPerNode of the TrainJob's trainer, or of mlPolicy.torch for a word")
    if found in _WORDS:
        return found
    if not found.isdecimal() or int(found) < 1:
        raise draft.source.malformed(path, f"must be auto, cpu, gpu or a number, but is {shown(found)}")
    return int(found)


def _elastic_processes(draft: Draft, processes: int | str) -> int | str:
    path = f"{_ELASTIC}.nProcPerNode"
    found = draft.source.integer(path, 1)
    draft.source.same(path, "TrainJob spec.trainer.numProcPerNode")
    return processes if found is None else found


def _read_elastic(draft: Draft, node: Part, role: str) -> None:
    source = draft.source
    least, most = (source.integer(f"{_ELASTIC}.{name}Replicas", 1) for name in ("min", "max"))
    workers = source.peek(f"{role}.replicas") or 1
    policy: Body = {"minNodes": least or workers, "maxNodes": most or max(workers, least or 1)}
    if policy["minNodes"] > policy["maxNodes"]:
        raise source.malformed(f"{_ELASTIC}.maxReplicas", f"is less than minReplicas {least}")
    require_pod_count(source, f"{_ELASTIC}.maxReplicas", policy["maxNodes"])
    source.same(f"{_ELASTIC}.minReplicas", "torch.elasticPolicy.minNodes")
    source.same(f"{_ELASTIC}.maxReplicas", "torch.elasticPolicy.maxNodes")
    if policy["maxNodes"] != workers:
        source.changed(f"{role}.replicas", "all nodes up to maxNodes join as soon as there is room")
    restarts = source.integer(f"{_ELASTIC}.maxRestarts")
    if restarts is not None:
        policy["maxRestarts"] = restarts
        source.same(f"{_ELASTIC}.maxRestarts", "torch.elasticPolicy.maxRestarts")
    if source.items(f"{_ELASTIC}.metrics"):
        source.lost(f"{_ELASTIC}.metrics", "nothing scales by metrics: nodes join as capacity allows", "set maxNodes")
    _read_rendezvous(draft, node)
    draft.nodes, node.pods = None, policy["maxNodes"]
    draft.policy["torch"]["elasticPolicy"] = policy


def _read_rendezvous(draft: Draft, node: Part) -> None:
    source = draft.source
    backend = source.text(f"{_ELASTIC}.rdzvBackend")
    if backend == "c10d":
        source.same(f"{_ELASTIC}.rdzvBackend", "PET_RDZV_BACKEND")
    else:
        source.changed(f"{_ELASTIC}.rdzvBackend", "c10d: the nodes meet at the first one, without etcd")
    for name in ("rdzvHost", "rdzvPort", "rdzvId"):
        source.changed(f"{_ELASTIC}.{name}", f"the nodes meet at the first one, port {TRAINER_PORT}, by the job's name")
    pairs = []
    for index, entry in enumerate(source.items(f"{_ELASTIC}.rdzvConf")):
        if set(entry) - {"key", "value"}:
            raise source.malformed(f"{_ELASTIC}.rdzvConf[{index}]", "has key and value only")
        pairs.append(f"{entry.get('key', '')}={entry.get('value', '')}")
    if pairs:
        upsert_env(node.container, [{"name": _CONF, "value": ",".join(pairs)}])
        source.changed(f"{_ELASTIC}.rdzvConf", f"variable {_CONF} of the container")
    if source.flag(f"{_ELASTIC}.standalone"):
        source.lost(f"{_ELASTIC}.standalone", "every node joins the others", "use one node without an elastic policy")
    else:
        source.same(f"{_ELASTIC}.standalone", "every node joins the others")


def _port(master: Part) -> int:
    ports = master.container.get("ports", ())
    return next((port["containerPort"] for port in ports if port.get("name") == "pytorchjob-port"), _MASTER_PORT)


CONVERTERS: Final = {("kubeflow.org/v1", "PyTorchJob"): convert}
