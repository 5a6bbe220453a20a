"""Platform programs as host processes instead of containers: one module for each component, with ``PROGRAMS``.

A definition states only the differences from the container: the kubeconfig and the addresses on 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.discovery import merged, plugins_of
from trainyard.local.cluster.supervisor.host_programs.base import ComponentPrograms, HostProgram

HOST_PROGRAMS: Final[Mapping[str, HostProgram]] = merged(
    "host programs", [each.programs for each in plugins_of(__name__, __path__, "PROGRAMS", ComponentPrograms).values()]
)
"""Definition by program, in the order of the status."""
