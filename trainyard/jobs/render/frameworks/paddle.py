"""PaddlePaddle: environment of ``python -m paddle.distributed.launch``.

Without parameter servers, training is collective: the rendezvous is at the first node, which identifies itself by
POD_IP. With a replicatedJob ``ps`` or ``server``, each launcher gets the endpoints of all servers and trainers and
starts those that match POD_IP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Annotated, Final

from pydantic import Field

from trainyard.api import Body
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import cpu_count, gpu_count, node_resources
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.roles import (
    check_indexes,
    index_variable,
    named_port,
    role_container,
    share_program,
    succeed_with,
)
from trainyard.jobs.render.hosts import MOST_VARIABLE_BYTES, host, hosts, size_error, size_of_hosts, subdomain
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import add_ports, prepend_env
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.reserved_env import reserved_errors
from trainyard.jobs.render.resolved_job import ResolvedJob

_MASTER: Final = "PADDLE_MASTER"
_NODES: Final = "PADDLE_NNODES"
_PROCESSES: Final = "PADDLE_NPROC_PER_NODE"
_JOB: Final = "PADDLE_JOB_ID"
_RANK: Final = "PADDLE_RANK"
_POD_INDEX: Final = "PADDLE_POD_INDEX"
_SERVERS: Final = "PADDLE_SERVERS_ENDPOINTS"
_TRAINERS: Final = "PADDLE_TRAINERS_ENDPOINTS"
_OWN_HOST: Final = "POD_IP"
_PORT: Final = 36543
_PORT_NAME: Final = "master"
_HIGHEST_PORT: Final = 65535
_SERVER_JOBS: Final = ("ps", "server")


class PaddlePolicy(KubernetesModel):
    """PaddlePaddle: environment of its launcher, for collective or parameter-server training."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] | None = None
    """Training processes per node; default: the number of accelerators, or 1."""


class Paddle(Framework[PaddlePolicy]):
    """The launcher of PaddlePaddle on each node."""

    name = "paddle"
    order = 70
    catalog_runtime = "paddle"
    summary = "PaddlePaddle."
    policy_model = PaddlePolicy
    added = "PaddlePaddle requires its own environment"
    variables = ("PADDLE_*",)
    one_process_a_device = True
    ranks = (_RANK, "PADDLE_TRAINER_ID", "PADDLE_GLOBAL_RANK", _POD_INDEX)
    sizes = (_NODES, "PADDLE_TRAINERS_NUM", "PADDLE_GLOBAL_SIZE")

    reserved = frozenset({_MASTER, _NODES, _PROCESSES, _RANK, _SERVERS, _TRAINERS, _OWN_HOST})

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield reserved variables, invalid numbers of processes and endpoints, and servers without a unique index."""
        yield from reserved_errors(job, self.reserved)
        trainer = job.spec.trainer
        requested = trainer.num_proc_per_node if trainer else None
        if isinstance(requested, int) and requested < 1:
            yield Finding(
                "spec.trainer.numProcPerNode",
                f"must be greater than or equal to 1 for Paddle TrainJob, not {requested}",
                "use 1 or more, or remove it for one process per GPU",
            )
        servers = list(_server_sets(job))
        for pod_set in servers:
            yield from check_indexes(pod_set)
        nodes = job.trainer
        if servers and nodes is not None and nodes.main_container is not None:
            yield from _endpoint_errors(job, nodes, servers, named_port(nodes.main_container, _PORT_NAME, _PORT))
        if len(servers) > 1:
            yield Finding(
                "spec.runtimeRef",
                f"{len(servers)} replicatedJobs of the runtime are parameter servers",
                f"keep one of {' and '.join(_SERVER_JOBS)}",
            )

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Insert the variables at the front, so that later ones can refer to them."""
        nodes = builder.trainer
        container = nodes.main_container if nodes else None
        if nodes is None or container is None:
            return ()
        servers = next(_server_sets(builder), None)
        server_container = role_container(servers) if servers else None
        if servers is None or server_container is None:
            _collective(builder, nodes, container)
        else:
            _with_servers(builder, nodes, container, servers, server_container)
        return ()


def _endpoint_errors(job: ResolvedJob, nodes: PodSet, servers: Sequence[PodSet], first_port: int) -> Iterator[Finding]:
    """Yield more trainers than ports, and more endpoints than a variable holds; checked before they are generated."""
    processes = _processes(job)
    trainer = job.spec.trainer
    path = "spec.trainer.numProcPerNode"
    if trainer is None or not isinstance(trainer.num_proc_per_node, int):
        path = "spec.trainer.resourcesPerNode" if trainer and trainer.resources_per_node else "spec.runtimeRef"
    if first_port + processes - 1 > _HIGHEST_PORT:
        message = f"{processes} processes per node need a port each, from {first_port}; the highest is {_HIGHEST_PORT}"
        yield Finding(path, message, f"use at most {_HIGHEST_PORT - first_port + 1}")
        return
    endpoint = len(":65535,")
    size = size_of_hosts(job, nodes, separators=endpoint, per_pod=processes)
    yield from size_error(job, _TRAINERS, size, MOST_VARIABLE_BYTES)
    for pod_set in servers:
        yield from size_error(job, _SERVERS, size_of_hosts(job, pod_set, separators=endpoint), MOST_VARIABLE_BYTES)


def _collective(builder: JobSetBuilder, nodes: PodSet, container: Body) -> None:
    port = named_port(container, _PORT_NAME, _PORT)
    prepend_env(
        container,
        [
            index_variable(_RANK, nodes),
            {"name": _OWN_HOST, "value": _own_host(builder, nodes, _RANK)},
            {"name": _MASTER, "value": f"{host(builder, nodes)}:{port}"},
            {"name": _NODES, "value": str(nodes.count)},
            {"name": _PROCESSES, "value": str(_processes(builder))},
            {"name": _JOB, "value": builder.name},
        ],
    )
    add_ports(container, port)


def _with_servers(
    builder: JobSetBuilder, nodes: PodSet, container: Body, servers: PodSet, server_container: Body
) -> None:
    server_port = named_port(server_container, _PORT_NAME, _PORT)
    first_port = named_port(container, _PORT_NAME, _PORT)
    ports = range(first_port, first_port + _processes(builder))
    common = [
        {"name": _SERVERS, "value": ",".join(f"{name}:{server_port}" for name in hosts(builder, servers))},
        {"name": _TRAINERS, "value": ",".join(f"{name}:{port}" for name in hosts(builder, nodes) for port in ports)},
        {"name": _NODES, "value": str(nodes.pods + servers.pods)},
        {"name": _JOB, "value": builder.name},
    ]
    share_program(builder, servers)
    # PADDLE_RANK would be interpreted as the rank of a trainer, so the index has a name that Paddle ignores.
    for pod_set, part in ((nodes, container), (servers, server_container)):
        own = {"name": _OWN_HOST, "value": _own_host(builder, pod_set, _POD_INDEX)}
        prepend_env(part, [index_variable(_POD_INDEX, pod_set), own, *common])
    add_ports(container, *ports)
    add_ports(server_container, server_port)
    succeed_with(builder, nodes)


def _server_sets(job: JobView) -> Iterator[PodSet]:
    return (pod_set for pod_set in job.pod_sets if pod_set.name in _SERVER_JOBS and pod_set is not job.trainer)


def _own_host(job: JobView, pod_set: PodSet, index: str) -> str:
    """Return the host name of the pod; the kubelet expands the index from the preceding variable."""
    suffix = f"$({index})-0" if pod_set.replicas > 1 else f"0-$({index})"
    return f"{job.name}-{pod_set.name}-{suffix}.{subdomain(job)}"


def _processes(job: JobView) -> int:
    """Return the processes per node: set by TrainJob or runtime, otherwise one per GPU."""
    trainer, policy = job.spec.trainer, job.ml_policy.of(Paddle)
    requested = trainer.num_proc_per_node if trainer else None
    if requested is None and policy:
        requested = policy.num_proc_per_node
    if isinstance(requested, int):
        return max(1, requested)
    resources = node_resources(job)
    if requested == "cpu":
        return max(1, ceil(cpu_count(resources)))
    return max(1, ceil(gpu_count(resources)))


FRAMEWORK: Final = Paddle()
