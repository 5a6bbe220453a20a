"""ClusterTrainingRuntimes of the catalog.

A released version is immutable, and the API server enforces it. A change of its images (another mirror, or a digest
that was locked later) therefore replaces the object. Jobs that have started keep their snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pulumi

from trainyard.cluster import ClusterAccess
from trainyard.data import data_folder, project_root
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES
from trainyard.runtimes import RELEASED_ANNOTATION, Runtime, installed_catalog
from trainyard.settings.platform import RuntimeSettings

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component, declare
from .hooks.webhooks import WebhookReadinessHook

__all__ = ["COMPONENT", "Runtimes", "catalog_folders"]


class Runtimes(Component):
    """The ClusterTrainingRuntimes of a stack.

    Parameters
    ----------
    authored
        Runtimes written in Python (`trainyard.runtimes.author`), in addition to those of the folders.
    access
        The cluster, to wait until its API server reaches the trainer's webhook; None to skip the wait.
    depends_on
        Dependencies: the trainer's Deployment and webhook configurations, and the Platform, because the webhook
        validates runtimes against it.

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
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("runtimes", name, opts)
        catalog = installed_catalog(catalog_folders(settings), settings.include, settings.mirrors, authored)
        manifests = catalog.objects()
        hooks = None
        if access is not None and manifests:
            hooks = WebhookReadinessHook(access, CLUSTER_TRAINING_RUNTIMES, manifests[0]).binding()
        common = pulumi.ResourceOptions(parent=self, depends_on=list(depends_on), hooks=hooks)
        immutable = pulumi.ResourceOptions.merge(
            common, pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
        )
        self.ready = [declare(manifest, immutable if _released(manifest) else common) for manifest in manifests]
        self.register_outputs({})


def _released(manifest: Mapping[str, Any]) -> bool:
    return RELEASED_ANNOTATION in manifest["metadata"].get("annotations", {})


def catalog_folders(settings: RuntimeSettings) -> list[Path]:
    """Return the folders of the shipped catalog and of the team's own."""
    return [data_folder("runtimes"), *(project_root() / folder for folder in settings.folders)]


def _install(context: Installation, needed: Resources) -> Runtimes:
    settings, access = context.settings.runtimes, context.target.access
    return Runtimes("runtimes", settings, access=access, depends_on=needed.ready, opts=context.options)


COMPONENT: Final = Declaration(
    name="runtimes",
    order=80,
    install=_install,
    needs=("trainer", "platform"),
    cluster_kinds={("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): "clustertrainingruntimes"},
)
