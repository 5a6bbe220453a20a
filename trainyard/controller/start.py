"""Start the controller from command-line flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainyard.controller.application import run
from trainyard.controller.configuration import Configuration, Listener
from trainyard.errors import TrainyardError
from trainyard.kube import credentials
from trainyard.logs import write_logs

_LEVELS = ("debug", "info", "warning", "error")


def start(
    *,
    kubeconfig: Path | None,
    context: str | None,
    config: Path | None,
    webhooks: bool,
    host: str | None,
    ports: Mapping[str, int | None],
    log_level: str,
) -> None:
    """Run the controller with a configuration file and flags; flags take precedence.

    Raises
    ------
    TrainyardError
        If configuration or credentials are invalid, or the controller failed.
    """
    if log_level not in _LEVELS:
        raise TrainyardError(f"log level {log_level!r} is invalid", fix=f"Use one of {', '.join(_LEVELS)}")
    write_logs(log_level.upper())
    loaded = Configuration.load(config) if config is not None else Configuration()
    connection = credentials.kubeconfig(kubeconfig, context) if kubeconfig is not None else credentials.in_cluster()
    run(with_flags(loaded, webhooks=webhooks, host=host, ports=ports), connection)


def with_flags(
    loaded: Configuration, *, webhooks: bool, host: str | None, ports: Mapping[str, int | None]
) -> Configuration:
    """Return a configuration overridden by flags.

    Parameters
    ----------
    host
        Address of all servers.
    ports
        Port by server: webhook, health, metrics.
    """
    changes: dict[str, object] = {} if webhooks else {"webhooks": False}
    for name, port in ports.items():
        listener: Listener = getattr(loaded, name)
        changes[name] = Listener(
            host=listener.host if host is None else host, port=listener.port if port is None else port
        )
    return loaded.model_copy(update=changes)
