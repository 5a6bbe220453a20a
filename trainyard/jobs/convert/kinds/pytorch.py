"""PyTorchJob of the training operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import TRAINER_PORT
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.operator_roles import Roles
from trainyard.jobs.convert.part import Part, require_pod_count
from trainyard.jobs.convert.ranked import merge, note_former_hosts, read_ranked
from trainyard.jobs.convert.run_policy import read_run_policy, succeed_with_role
from trainyard.jobs.convert.source import LegacySource, shown
from trainyard.jobs.convert.torch_environment import (
    MASTER_PORT,
    fixed_nodes,
    is_launched,
    names_processes,
    number_of_processes,
    set_node_variables,
    set_role_variables,
)
from trainyard.jobs.convert.variables import UNBUFFERED, literal, set_first, set_variables
from trainyard.jobs.render.devices import gpu_count
from trainyard.jobs.render.frameworks.elastic import ELASTIC_RESERVED
from trainyard.jobs.render.frameworks.roles import named_port
from trainyard.jobs.render.frameworks.torch import RESERVED
from trainyard.jobs.render.pod_editing import upsert_env

_ROLES: Final = Roles("spec.pytorchReplicaSpecs", "pytorch", "OnFailure", "pytorchjob-controller", leads=True)
_ELASTIC: Final = "spec.elasticPolicy"
_PROCESSES: Final = "spec.nprocPerNode"
_AUTO: Final = "auto"
_WORDS: Final = (_AUTO, "cpu", "gpu")
_CORES: Final = "auto: one process per core that the container requests, where torchrun counts the cores of the node"
_IN_COMMAND: Final = "the number of nodes in the command"
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
        _drop_overridden(source, node, RESERVED | ELASTIC_RESERVED if elastic else RESERVED)
        draft.policy = {"torch": {}}
        if isinstance(processes, int):
            draft.processes = processes
        elif stated is not None:
            draft.policy["torch"]["numProcPerNode"] = processes
        if elastic:
            _read_elastic(draft, node, (worker or node).role)
        counted = processes == _AUTO and is_launched(node) and not names_processes(node)
        if counted and not gpu_count(node.container.get("resources", {})):
            source.notes.append(FieldFinding.of(_PROCESSES, _AUTO, Fidelity.CHANGED, _CORES, "set nprocPerNode"))
        set_node_variables(draft, node, number_of_processes(processes), always=had_master and not elastic)
    elif master is not None and worker is not None:
        succeed_with_role(draft, master)
        if elastic:
            _read_elastic_roles(draft, [master, worker])
        port = named_port(master.container, "pytorchjob-port", MASTER_PORT)
        set_role_variables(draft, master, worker, processes, port)
    for part in draft.parts:
        set_variables(source, part, [UNBUFFERED], always=True)
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


def _drop_overridden(source: LegacySource, node: Part, reserved: frozenset[str]) -> None:
    """Leave out variables of the job that the framework sets, as the operator did."""
    kept = []
    for index, entry in enumerate(node.container.get("env", ())):
        if entry["name"] not in reserved:
            kept.append(entry)
            continue
        path = f"{node.container_path}.env[{index}]"
        source.changed(path, "left out: the framework sets it over the job's own value, as the old operator did")
    if kept:
        node.container["env"] = kept
    else:
        node.container.pop("env", None)


def _read_elastic(draft: Draft, node: Part, role: str) -> None:
    """Read the elastic policy: a range of nodes if the operator scaled the job by metrics, else the replicas."""
    source = draft.source
    least, most = _bounds(draft)
    scaled, fixed = bool(source.items(f"{_ELASTIC}.metrics")), fixed_nodes(node)
    if scaled and fixed is None:
        workers = source.peek(f"{role}.replicas") or 1
        policy: Body = {"minNodes": least or most or workers, "maxNodes": most or least or workers}
        require_pod_count(source, f"{_ELASTIC}.maxReplicas", policy["maxNodes"])
        reason = "nothing scales by metrics: nodes join as capacity allows"
        if policy["maxNodes"] != workers:
            source.changed(f"{role}.replicas", "all nodes up to maxNodes join as soon as there is room")
    else:
        # The operator's autoscaler can reach the number for which the command waits.
        reached = scaled and fixed is not None and (least or 1) <= fixed <= (most or 1)
        number = fixed if reached and fixed is not None else node.pods
        if number != node.pods:
            source.forget(f"{role}.replicas")
            source.changed(f"{role}.replicas", _IN_COMMAND)
        policy = {"minNodes": number, "maxNodes": number}
        reason = "the command has a fixed number of nodes"
    if scaled:
        source.lost(f"{_ELASTIC}.metrics", reason, "set maxNodes")
    _note_bounds(draft, least or policy["minNodes"], most or policy["maxNodes"], policy, scaled=scaled)
    restarts = source.integer(f"{_ELASTIC}.maxRestarts")
    if restarts is not None:
        policy["maxRestarts"] = restarts
        source.same(f"{_ELASTIC}.maxRestarts", "torch.elasticPolicy.maxRestarts")
    _note_backend(draft)
    for name in ("rdzvHost", "rdzvPort", "rdzvId"):
        source.changed(f"{_ELASTIC}.{name}", f"the nodes meet at the first one, port {TRAINER_PORT}, by the job's name")
    _configure(draft, [node])
    draft.nodes, node.pods = None, policy["maxNodes"]
    draft.policy["torch"]["elasticPolicy"] = policy


def _note_bounds(draft: Draft, least: int, most: int, policy: Body, *, scaled: bool = False) -> None:
    message = _IN_COMMAND if scaled else "the number of replicas: without metrics, the operator runs no others"
    for name, bound in (("min", least), ("max", most)):
        path, field = f"{_ELASTIC}.{name}Replicas", f"{name}Nodes"
        if bound == policy.get(field):
            draft.source.same(path, f"torch.elasticPolicy.{field}")
        else:
            draft.source.changed(path, message, f"set {field} of torch.elasticPolicy if the job can run with others")


def _read_elastic_roles(draft: Draft, parts: Sequence[Part]) -> None:
    """Read the elastic policy of roles with different templates: their number is fixed, the rendezvous dynamic."""
    source = draft.source
    if source.items(f"{_ELASTIC}.metrics"):
        message = "master and workers have different pods, and elastic nodes must be alike"
        source.lost(f"{_ELASTIC}.metrics", message, "give Master and Worker one template, or remove Master")
    least, most = _bounds(draft)
    _note_bounds(draft, least or 0, most or 0, {})
    _note_backend(draft)
    port = source.integer(f"{_ELASTIC}.rdzvPort", 1) or TRAINER_PORT
    source.same(f"{_ELASTIC}.rdzvPort", f"port of the variable {_ENDPOINT}")
    source.changed(f"{_ELASTIC}.rdzvHost", "the nodes meet at the first one")
    variables = [
        literal(_BACKEND, "c10d"),
        literal(_ENDPOINT, f"{parts[0].first_host(draft.name)}:{port}"),
        literal(_ID, source.text(f"{_ELASTIC}.rdzvId") or draft.name),
    ]
    source.same(f"{_ELASTIC}.rdzvId", f"variable {_ID}")
    restarts = source.integer(f"{_ELASTIC}.maxRestarts")
    if restarts is not None:
        variables.append(literal(_RESTARTS, restarts))
        source.same(f"{_ELASTIC}.maxRestarts", f"variable {_RESTARTS}")
    for part in parts:
        set_first(part, variables)
    _configure(draft, parts)


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


def _configure(draft: Draft, parts: Sequence[Part]) -> None:
    """Set the variable with the configuration of the rendezvous."""
    source = draft.source
    pairs = []
    for index, entry in enumerate(source.items(f"{_ELASTIC}.rdzvConf")):
        if set(entry) - {"key", "value"}:
            raise source.malformed(f"{_ELASTIC}.rdzvConf[{index}]", "has key and value only")
        pairs.append(f"{entry.get('key', '')}={entry.get('value', '')}")
    if pairs:
        for part in parts:
            upsert_env(part.container, [{"name": _CONF, "value": ",".join(pairs)}])
        source.changed(f"{_ELASTIC}.rdzvConf", f"variable {_CONF} of the container; rule ENV-001 warns of it")


CONVERTERS: Final = {("kubeflow.org/v1", "PyTorchJob"): convert}
