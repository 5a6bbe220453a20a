"""Summary page: processes, queues, the fabric, and the placement of the smoke job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class ProcessLine:
    """Name, version, address and health of a process."""

    name: str
    version: str
    address: str
    health: str


@dataclass(frozen=True)
class SmokeReport:
    """Result of the smoke job.

    Parameters
    ----------
    name
        ``namespace/name`` of the TrainJob.
    conditions
        Its status conditions.
    nodes
        Node of each pod of the gang, by pod name.
    seconds
        Time from creation to the terminal condition.
    ran
        Whether it was submitted in this run.
    """

    name: str
    conditions: tuple[Manifest, ...]
    nodes: Mapping[str, str]
    seconds: float
    ran: bool


def process_table(processes: Iterable[ProcessLine]) -> Table:
    """Return the table of processes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("process", "version", "address", "health"):
        table.add_column(heading, no_wrap=True)
    for line in processes:
        style = "green" if line.health == "healthy" else "yellow"
        table.add_row(line.name, line.version, line.address, Text(line.health, style=style))
    return table


def queue_tree(queues: Sequence[Manifest], resource: str) -> Tree:
    """Return the live queue tree with guarantee, deserved share, capability and usage of one resource.

    Parameters
    ----------
    queues
        Volcano Queue objects.
    resource
        Resource to show, such as ``nvidia.com/gpu``.
    """
    children: dict[str, list[Manifest]] = {}
    for queue in queues:
        name = queue["metadata"]["name"]
        if name != "root":
            children.setdefault(queue.get("spec", {}).get("parent") or "root", []).append(queue)

    def grow(branch: Tree, name: str, path: frozenset[str]) -> None:
        for queue in sorted(children.get(name, []), key=lambda body: str(body["metadata"]["name"])):
            child = queue["metadata"]["name"]
            if child not in path:
                grow(branch.add(_queue_label(queue, resource)), child, path | {child})

    tree = Tree("root")
    grow(tree, "root", frozenset({"root"}))
    return tree


def _queue_label(queue: Manifest, resource: str) -> str:
    spec, status = queue.get("spec", {}), queue.get("status", {})
    words = [f"{word} {amounts[resource]}" for word, amounts in _shares(spec) if resource in amounts]
    used = status.get("allocated", {}).get(resource)
    if used not in (None, "0"):
        words.append(f"in use {used}")
    share = f"  [dim]{resource}: {', '.join(words)}[/dim]" if words else ""
    state = status.get("state", "Open")
    return f"{queue['metadata']['name']}{share}" + ("" if state == "Open" else f"  [yellow]{state}[/yellow]")


def _shares(spec: Manifest) -> list[tuple[str, Manifest]]:
    return [
        ("guarantee", spec.get("guarantee", {}).get("resource", {})),
        ("deserved", spec.get("deserved", {})),
        ("at most", spec.get("capability", {})),
    ]


def landing_domains(hyper_nodes: Sequence[Manifest], nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the tier-1 HyperNodes that contain the given nodes, sorted."""
    wanted = set(nodes)
    return tuple(
        sorted(
            body["metadata"]["name"]
            for body in hyper_nodes
            if body["spec"]["tier"] == 1 and wanted & set(_members(body))
        )
    )


def _members(hyper_node: Manifest) -> list[str]:
    return [
        member["selector"]["exactMatch"]["name"]
        for member in hyper_node["spec"]["members"]
        if "exactMatch" in member["selector"]
    ]


def fabric_tree(hyper_nodes: Sequence[Manifest], landed: Mapping[str, str]) -> Tree:
    """Return the fabric with marks on the domains of a gang.

    Parameters
    ----------
    hyper_nodes
        Volcano HyperNode objects.
    landed
        Mark by HyperNode name.
    """
    by_name = {body["metadata"]["name"]: body for body in hyper_nodes}
    listed = {member for body in hyper_nodes for member in _members(body)}

    def grow(branch: Tree, body: Manifest) -> None:
        name, tier, members = body["metadata"]["name"], body["spec"]["tier"], _members(body)
        size = f"{len(members)} nodes" if tier == 1 else f"{len(members)} domains"
        mark = f"  [bold green]◀ {landed[name]}[/bold green]" if name in landed else ""
        child = branch.add(f"{name}  [dim]tier {tier}, {size}[/dim]{mark}")
        for member in sorted(members):
            if member in by_name:
                grow(child, by_name[member])

    tree = Tree("fabric", hide_root=True)
    for name in sorted(set(by_name) - listed):
        grow(tree, by_name[name])
    return tree


def summary(
    *,
    cluster: str,
    kubeconfig: Path,
    processes: Sequence[ProcessLine],
    queues: Sequence[Manifest],
    hyper_nodes: Sequence[Manifest],
    accelerator: str,
    job: SmokeReport,
    stack: str = "local",
) -> RenderableType:
    """Return the summary page."""
    chosen = "" if stack == "local" else f" --stack {stack}"
    domains = landing_domains(hyper_nodes, job.nodes.values())
    namespace, _, name = job.name.partition("/")
    place = ", ".join(domains) or "no domain"
    placed = ", ".join(sorted(set(job.nodes.values())))
    console = next((each.address for each in processes if each.name == "trainyard-console"), "")
    lines: list[RenderableType] = [
        "",
        f"[bold]Trainyard is up[/bold] on cluster {cluster}.",
        "",
        process_table(processes),
        "",
        "[bold]Queues[/bold]",
        queue_tree(queues, accelerator),
        "",
        "[bold]Fabric[/bold]",
        fabric_tree(hyper_nodes, dict.fromkeys(domains, job.name)),
        "",
        f"[bold]TrainJob {job.name}[/bold]: {len(job.nodes)} pods placed together in {place} ({placed}), "
        f"ended after {job.seconds:.0f} s",
        *(
            f"  {body['type']}={body['status']}  {body.get('reason', '')}: {body.get('message', '')}"
            for body in job.conditions
        ),
        "",
        "[bold]Kubeconfig[/bold]",
        f"  {kubeconfig}",
        "",
        *(
            ["[bold]Console[/bold]", f"  https://{console}    # sign in with a token: docs/console.md", ""]
            if console
            else []
        ),
        "[bold]Try next[/bold]",
        f'  eval "$(.venv/bin/trainyard cluster env{chosen})"          # kubectl and pulumi for this cluster',
        f"  kubectl get trainjob,podgroup,pods -n {namespace}     # the job, its gang and its pods",
        f"  kubectl describe trainjob {name} -n {namespace}       # what the controller did",
        f"  pulumi preview --stack {stack}                       "
        f"# what a change of stacks/Pulumi.{stack}.yaml would do",
    ]
    return Group(*lines)
