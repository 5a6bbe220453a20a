"""Helpers of command groups: output formats, stack settings, progress, clients."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainyard.checks.printable_text import printable
from trainyard.data import project_root
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from rich.console import Console

    from trainyard.cluster_state.observed import Observed
    from trainyard.kube.client import Client
    from trainyard.progress import Progress
    from trainyard.settings.stack import StackSettings

CLEAR = "\r\x1b[2K"
ClusterStack = Annotated[str | None, typer.Option("--stack", "-s", help="Stack of the cluster.")]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig; without stack, that of KUBECONFIG.")]
KubeconfigContext = Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig.")]


class Output(StrEnum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


class PlanFormat(StrEnum):
    """Output formats of plans and diffs."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class ManifestOutput(StrEnum):
    """Output formats of an object."""

    TEXT = "text"
    YAML = "yaml"
    JSON = "json"


def settings_of(stack: str, config_file: Path | None = None) -> StackSettings:
    """Return the settings of a stack as its program sees them: of its file or another one, project and environments."""
    from trainyard.settings.stack_loader import has_environment, load_stack

    file = config_path(stack, config_file)
    if not has_environment(file):
        return load_stack(file, project_file())
    from trainyard.platform.deploy.environment_settings import read_settings

    return read_settings(stack, file)


def project_file() -> Path:
    """Return the file of the project, whose values Pulumi gives the stacks that lack them; it may not exist."""
    return project_root() / "Pulumi.yaml"


def config_path(stack: str, config_file: Path | None = None) -> Path:
    """Return the settings file of a stack, or another one if given."""
    from trainyard.settings.stack_loader import stack_file

    return config_file or stack_file(stack, project_root() / "stacks")


def line_progress(console: Console) -> Progress:
    """Return progress that prints lines, and records the durations of steps for estimates."""
    from trainyard.local.cluster.folders import cache_home
    from trainyard.progress import LineProgress

    def permanent(text: str) -> None:
        line = printable(text)
        console.print(f"{CLEAR if console.is_terminal else ''}{line}", markup=False, highlight=False, soft_wrap=True)

    def transient(text: str) -> None:
        line = printable(text)
        console.file.write(f"{CLEAR}{line[: console.width - 1]}")
        console.file.flush()

    return LineProgress(
        permanent,
        history=cache_home() / "durations.json",
        interval=0.5 if console.is_terminal else 10.0,
        transient=transient if console.is_terminal else None,
    )


def client_of(
    kubeconfig: Path | None, context: str | None, settings: StackSettings | None, stack: str, **options: Any
) -> Client:
    """Return a client for the cluster of a kubeconfig, else of a stack; with options of `Client`.

    Raises
    ------
    TrainyardError
        Neither is given, or the stack's cluster does not exist.
    """
    from trainyard.kube.client import Client

    if kubeconfig is None and settings is not None:
        from trainyard.local.cluster import cluster_name, provider

        access = provider(settings.cluster, cluster_name(settings, stack)).access()
        kubeconfig, context = access.kubeconfig, context or access.context
    if kubeconfig is None:
        raise TrainyardError("No cluster is given", fix="set --kubeconfig")
    return Client.from_kubeconfig(kubeconfig, context, **options)


def reader_of(stack: str | None, kubeconfig: Path | None, context: str | None, **options: Any) -> Client:
    """Return a client for a reader of a cluster, who may not have the stack; with options of `Client`.

    The cluster is that of the kubeconfig, else of the stack, else of ``KUBECONFIG``, else of stack local.
    """
    if kubeconfig is None and stack is None and (files := os.environ.get("KUBECONFIG")):
        kubeconfig = Path(files)
    name = stack or "local"
    return client_of(kubeconfig, context, None if kubeconfig else settings_of(name), name, **options)


def text_of(name: str | Path) -> str:
    """Return the text of a file; ``-`` is standard input.

    Raises
    ------
    TrainyardError
        It cannot be read, or is not UTF-8 text.
    """
    from trainyard.manifests.files import read_text

    return read_text(name)


def recorded_state(file: Path) -> Observed:
    """Return the state of a file of `trainyard snapshot save`; ``-`` is standard input.

    Raises
    ------
    TrainyardError
        It cannot be read, or contains something else.
    """
    from datetime import UTC, datetime

    from trainyard.cluster_state.recorded_file import observed_of_text

    return observed_of_text(text_of(file), str(file), datetime.now(UTC))
