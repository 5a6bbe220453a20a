"""ClusterTrainingRuntimes of the catalog.

A released version is final, and the API server enforces that. Its images may still come from another mirror, or
get the digest that was locked later: then the object is replaced. Jobs that have started keep their snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pulumi

from components.objects import Component, declare
from components.webhooks import TrustedWebhooks
from trainyard.cluster import ClusterAccess
from trainyard.controller.resources import CLUSTER_TRAINING_RUNTIMES
from trainyard.data import data_folder, project_root
from trainyard.runtimes import RELEASED_ANNOTATION, Runtime, installed_catalogue
from trainyard.settings.platform import RuntimeSettings

__all__ = ["Runtimes", "catalogue_folders"]


class Runtimes(Component):
    """The runtimes that a stack includes.

    Parameters
    ----------
    authored
        Runtimes written in Python (`trainyard.runtimes.author`), beside those of the folders.
    access
        The cluster, whose API server has to reach the trainer's webhook first; None where there is none.
    after
        The trainer's Deployment and webhook configurations, because the webhook judges runtimes, and the object
        ``platform``, by which it does.

    Attributes
    ----------
    ready
        Every runtime and alias.
    """

    def __init__(
        self,
        name: str,
        settings: RuntimeSettings,
        *,
        authored: Iterable[Runtime] = (),
        access: ClusterAccess | None = None,
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("runtimes", name, opts)
        edges = list(after)
        catalogue = installed_catalogue(catalogue_folders(settings), settings.include, settings.mirrors, authored)
        manifests = catalogue.objects()
        hooks = None
        if access is not None and manifests:
            hooks = TrustedWebhooks(access, CLUSTER_TRAINING_RUNTIMES, manifests[0]).binding()
        common = pulumi.ResourceOptions(parent=self, depends_on=edges, hooks=hooks)
        final = pulumi.ResourceOptions.merge(
            common, pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
        )
        self.ready = [declare(manifest, final if _released(manifest) else common) for manifest in manifests]
        self.register_outputs({})


def _released(manifest: Mapping[str, Any]) -> bool:
    return RELEASED_ANNOTATION in manifest["metadata"].get("annotations", {})


def catalogue_folders(settings: RuntimeSettings) -> list[Path]:
    """Return the shipped catalogue and the team's own."""
    return [data_folder("runtimes"), *(project_root() / folder for folder in settings.folders)]
