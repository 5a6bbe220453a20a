"""Cluster providers: each is one module with a ``PROVIDER``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.discovery import plugins_of
from trainyard.local.cluster.providers.base import ClusterProvider

PROVIDERS: Final[Mapping[str, ClusterProvider]] = plugins_of(__name__, __path__, "PROVIDER", ClusterProvider)
"""Cluster providers by their name in the settings."""
