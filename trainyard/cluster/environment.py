"""Variables that point kubectl and pulumi at a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from trainyard.cluster.pulumi_home import quiet_home

__all__ = ["LOCAL_PASSPHRASE", "exports", "local_environment", "tool_path"]

LOCAL_PASSPHRASE = "trainyard"  # noqa: S105
"""Passphrase of the state of clusters on this machine. It guards nothing: that state holds no secrets, and Pulumi asks
for one all the same. It is the same everywhere, so that the salt in a stack's file fits every checkout."""


def local_environment(kubeconfig: Path, pulumi: Path, folders: Sequence[Path]) -> dict[str, str]:
    """Return the variables of a cluster whose Pulumi state lies beside it.

    Parameters
    ----------
    kubeconfig
        Its kubeconfig.
    pulumi
        Folder of the Pulumi state and of the passphrase.
    folders
        Folders of programs, put before PATH after this Python environment's.
    """
    home = {"PULUMI_HOME": str(quiet_home(pulumi / "home"))} if pulumi.is_dir() else {}
    return {
        **tool_path(folders),
        **home,
        "KUBECONFIG": str(kubeconfig),
        "PULUMI_BACKEND_URL": f"file://{pulumi}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(pulumi / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # An object whose declared fields are those of the state is unchanged; the provider need not compare it too.
        "PULUMI_ENABLE_LEGACY_DIFF": "true",
        # Saving the state once instead of twice for each resource halves the time. What a killed run made is found
        # again by its label.
        "PULUMI_EXPERIMENTAL": "true",
        "PULUMI_SKIP_CHECKPOINTS": "true",
        # Pulumi and its provider live for seconds; at the usual setting a fifth of that is garbage collection.
        "GOGC": os.environ.get("GOGC", "400"),
    }


def tool_path(folders: Sequence[Path]) -> dict[str, str]:
    """Return PATH and VIRTUAL_ENV with this Python environment and program folders first."""
    own = [str(Path(sys.prefix) / "bin"), *map(str, folders)]
    others = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry and entry not in own]
    return {"PATH": os.pathsep.join([*own, *others]), "VIRTUAL_ENV": sys.prefix}


def exports(variables: dict[str, str]) -> str:
    """Return shell text that sets variables."""
    return "\n".join(
        "export {}='{}'".format(name, value.replace("'", "'\\''")) for name, value in sorted(variables.items())
    )
