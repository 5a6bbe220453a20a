"""Host program of the console."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import trainyard
from trainyard.local.cluster.supervisor.host_programs.base import (
    ComponentPrograms,
    HostProgram,
    RunContext,
    health_probe,
    with_flags,
)


def _command(context: RunContext, arguments: list[str]) -> list[str]:
    own = arguments[arguments.index("serve") + 1 :] if "serve" in arguments else arguments[1:]
    flags: dict[str, str | None] = {
        "kubeconfig": str(context.kubeconfig),
        "listen": context.host,
        "port": str(context.ports["trainyard-console/https"]),
    }
    return [sys.executable, "-m", "trainyard", "console", "serve", *with_flags(own, flags)]


def _variables(context: RunContext) -> dict[str, str]:
    """Run the console from the code of its supervisor, not from an installed package."""
    return {"PYTHONPATH": str(Path(trainyard.__file__).resolve().parent.parent)}


PROGRAMS: Final = ComponentPrograms(
    "console",
    38,
    {
        "trainyard-console": HostProgram(
            command=_command,
            health=health_probe("trainyard-console/https", "/readyz", tls=True),
            upstream=False,
            serving_port="trainyard-console/https",
            variables=_variables,
            ports=("https",),
            deployment="trainyard-console",
            optional=True,
        ),
    },
)
