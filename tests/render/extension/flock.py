"""Legacy jobs of a framework of the test: one file converts them to TrainJobs of the framework."""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import CONTAINER_NODE
from trainyard.jobs.convert.draft import Draft


def convert(draft: Draft) -> None:
    """Convert a Flock: the pods of its template are nodes of a herd."""
    node = draft.read("spec.template", CONTAINER_NODE, draft.source.integer("spec.sheep") or 1)
    draft.framework, draft.policy, draft.nodes = "herd", {"herd": {}}, node.pods
    draft.train(node)
    draft.source.same("spec.sheep", "nodes of the herd")


CONVERTERS: Final = {("legacy.example.com/v1", "Flock"): convert}
