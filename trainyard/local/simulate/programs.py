"""The programs of Volcano in a replay, by their names in scenarios."""

from __future__ import annotations

from typing import Final

from trainyard.local.cluster.supervisor.host_programs import volcano

PROGRAM_OF_DEPLOYMENT: Final = {
    each.deployment: name for name, each in volcano.PROGRAMS.programs.items() if each.deployment
}
"""Program by Deployment."""

PROGRAMS: Final = {
    deployment.removeprefix("volcano-"): program for deployment, program in PROGRAM_OF_DEPLOYMENT.items()
}
"""Program by name; its Deployment is ``volcano-<name>``."""
