"""ClusterTrainingRuntimes of the catalog.

A released version is immutable, and the API server enforces it. A change of its images (another mirror, or a digest
that was locked later) therefore replaces the object. Jobs that have started keep their snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulumi

from trainyard.api.constants import RELEASED_ANNOTATION
from trainyard.data import configured_folder, data_folder
from trainyard.jobs.runtimes.catalog import Runtime
from trainyard.jobs.runtimes.installed_catalog import installed_catalog
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.settings.platform import RuntimeSettings

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component
from .hooks.webhooks import WebhookReadinessHook

__all__ = ["COMPONENT", "Runtimes", "RuntimesArgs", "catalog_folders"]


@dataclass(frozen=True)
class RuntimesArgs:
    """Arguments of the Runtimes component.

    Parameters
    ----------
    settings
        Folders, mirrors and names of the installed runtimes.
    authored
        Runtimes written in Python (`trainyard.runtimes.author`), in addition to those of the folders.
    access
        The cluster, to wait until its API server reaches the trainer's webhook; None to skip the wait.
    """

    settings: RuntimeSettings
    authored: Iterable[Runtime] = ()
    access: ClusterAccess | None = None


class Runtimes(Component):
    """The ClusterTrainingRuntimes of a stack.

    All inherit ``opts.depends_on``: the trainer's Deployment and webhook configurations, and the Platform, because the
    webhook validates runtimes against it.

    Attributes
    ----------
    ready
        Every runtime and alias.
    """

    def __init__(self, name: str, args: RuntimesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("runtimes", name, opts)
        settings, access = args.settings, args.access
        catalog = installed_catalog(catalog_folders(settings), settings.include, settings.mirrors, args.authored)
        manifests = catalog.objects()
        hooks = None
        if access is not None and manifests:
            hooks = WebhookReadinessHook(access, CLUSTER_TRAINING_RUNTIMES, manifests[0]).binding()
        self.ready = [
            self.child(
                manifest,
                inherit_depends_on=True,
                hooks=hooks,
                replace_on_changes=("spec",) if _released(manifest) else (),
            )
            for manifest in manifests
        ]
        self.register_outputs({})


def _released(manifest: Mapping[str, Any]) -> bool:
    return RELEASED_ANNOTATION in manifest["metadata"].get("annotations", {})


def catalog_folders(settings: RuntimeSettings) -> list[Path]:
    """Return the folders of the shipped catalog and of the team's own."""
    return [data_folder("runtimes"), *map(configured_folder, settings.folders)]


def _install(context: Installation, needed: Resources) -> Runtimes:
    args = RuntimesArgs(context.settings.runtimes, access=context.target.access)
    return Runtimes("runtimes", args, context.options_after(*needed.ready))


COMPONENT: Final = Declaration(
    name="runtimes",
    order=80,
    install=_install,
    needs=("trainer", "platform"),
    cluster_kinds={("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): "clustertrainingruntimes"},
)
