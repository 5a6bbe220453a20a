"""The training runtimes of the catalogue, as ClusterTrainingRuntimes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pulumi

from components.objects import Component
from trainyard.data import checkout, data_folder
from trainyard.runtimes import load_catalogue
from trainyard.settings.platform import RuntimeSettings

__all__ = ["Runtimes", "catalogue_folders"]


class Runtimes(Component):
    """The runtimes that a stack includes.

    Parameters
    ----------
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
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("runtimes", name, opts)
        edges = list(after)
        catalogue = load_catalogue(catalogue_folders(settings), settings.include)
        self.ready = [self.child(manifest, after=edges) for manifest in catalogue.objects()]
        self.register_outputs({})


def catalogue_folders(settings: RuntimeSettings) -> list[Path]:
    """Return the shipped catalogue and the team's own."""
    return [data_folder("runtimes"), *(checkout() / folder for folder in settings.folders)]
