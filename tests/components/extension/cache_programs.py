"""Host program of a component of the test."""

from __future__ import annotations

from trainyard.local.cluster.supervisor.host_programs.base import (
    ComponentPrograms,
    HostProgram,
    RunContext,
    health_probe,
    memory_variable,
    with_flags,
)


def _command(context: RunContext, arguments: list[str]) -> list[str]:
    return [str(context.program), *with_flags(arguments[1:], {"kubeconfig": str(context.kubeconfig)})]


PROGRAMS = ComponentPrograms(
    "cache",
    40,
    {
        "cache": HostProgram(
            command=_command,
            health=health_probe("cache/health", "/healthz"),
            serving_port="cache/webhook",
            variables=memory_variable(64, 1),
            ports=("webhook", "health"),
            deployment="cache",
        )
    },
)
