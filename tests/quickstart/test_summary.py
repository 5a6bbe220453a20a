"""The closing page: what a person reads after `make up`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.golden import assert_golden
from tests.support import ROOT
from trainyard.platform.quickstart.smoke import smoke_job
from trainyard.platform.quickstart.summary import ProcessLine, SmokeReport, landing_domains, summary
from trainyard.scheduling.queues.queue_bodies import queue_objects
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack

GOLDEN = Path(__file__).parent / "golden"


def local() -> StackSettings:
    return load_stack(ROOT / "stacks" / "Pulumi.local.yaml")


def report(**nodes: str) -> SmokeReport:
    condition = {"type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": "jobset completed"}
    return SmokeReport("language/smoke", (condition,), nodes, 4.0, ran=True)


def page(queues: list[dict[str, Any]], job: SmokeReport, stack: str = "local") -> str:
    console = Console(width=100, highlight=False, record=True, file=io.StringIO())
    console.print(
        summary(
            cluster="local",
            kubeconfig=Path("/state/kubeconfig"),
            processes=[
                ProcessLine("etcd", "3.6.8", "127.0.0.1:2379", "healthy"),
                ProcessLine("jobset", "0.12.0", "", "unhealthy"),
            ],
            queues=queues,
            hyper_nodes=list(compile_fabric(local().fabric).hyper_nodes),
            accelerator="nvidia.com/gpu",
            job=job,
            stack=stack,
        ),
        soft_wrap=True,
    )
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n"


def test_the_page_is_what_was_reviewed() -> None:
    queues = [*queue_objects(local()), {"metadata": {"name": "default"}, "spec": {}, "status": {"state": "Closed"}}]
    text = page(queues, report(a="rack-0-node-1", b="rack-0-node-2"))
    assert_golden(GOLDEN / "summary.txt", text)


def test_the_commands_to_try_are_those_of_the_stack() -> None:
    text = page([], report(), "node")
    assert 'eval "$(.venv/bin/trainyard cluster env --stack node)"' in text
    assert "pulumi preview --stack node" in text
    assert "stacks/Pulumi.node.yaml" in text


def test_a_queue_that_names_a_parent_of_its_own_does_not_hang_the_drawing() -> None:
    loop = [{"metadata": {"name": "a"}, "spec": {"parent": "b"}}, {"metadata": {"name": "b"}, "spec": {"parent": "a"}}]
    assert "Queues" in page(loop, report())


def test_a_gang_over_two_racks_is_shown_as_such() -> None:
    nodes = compile_fabric(local().fabric).hyper_nodes
    assert landing_domains(list(nodes), ["rack-0-node-0", "rack-1-node-3"]) == ("rack-0", "rack-1")


def test_the_smoke_job_fills_whole_nodes_for_a_tenant_of_the_stack() -> None:
    job = smoke_job(local())
    assert job["metadata"]["namespace"] in local().tenants
    assert job["spec"]["trainer"]["numNodes"] == 2
    assert job["spec"]["trainer"]["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": "8"}
