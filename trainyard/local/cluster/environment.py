"""Variables that point kubectl and pulumi at a cluster."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from trainyard.local.cluster.pulumi_home import home_without_logs

NO_CLUSTER_VARIABLE = "TRAINYARD_NO_CLUSTER"
"""Set to ``true``, a preview plans every resource as a creation and reads no cluster; `up` refuses it."""

LOCAL_PASSPHRASE = "trainyard"  # noqa: S105
"""Passphrase of the Pulumi state of clusters on this machine. Pulumi requires one, although this state contains no
secrets. It is constant, so that the salt in a stack's file is valid in every checkout."""


def user_name() -> str:
    """Return the name of the user; its number where the machine knows no name, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def local_environment(kubeconfig: Path, pulumi: Path, folders: Sequence[Path]) -> dict[str, str]:
    """Return the variables of a cluster whose Pulumi state is in its folder.

    Parameters
    ----------
    kubeconfig
        Its kubeconfig.
    pulumi
        Folder of the Pulumi state and the passphrase.
    folders
        Folders of programs, prepended to PATH after this Python environment's.
    """
    home = {"PULUMI_HOME": str(home_without_logs(pulumi / "home"))} if pulumi.is_dir() else {}
    return {
        **tool_path(folders),
        **home,
        "KUBECONFIG": str(kubeconfig),
        "PULUMI_BACKEND_URL": f"file://{pulumi}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(pulumi / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # An object whose inputs equal those of the state is unchanged; the provider need not diff it too.
        "PULUMI_ENABLE_LEGACY_DIFF": "true",
        # One write of the state instead of two for each resource halves the run time. A run after a killed one
        # follows the cluster: see trainyard/platform/deploy/recovery.py.
        "PULUMI_EXPERIMENTAL": "true",
        "PULUMI_SKIP_CHECKPOINTS": os.environ.get("PULUMI_SKIP_CHECKPOINTS", "true"),
        # Pulumi and its provider run for seconds; with Go's default a fifth of that is garbage collection.
        "GOGC": os.environ.get("GOGC", "400"),
    }


def offline_environment(folders: Sequence[Path]) -> dict[str, str]:
    """Return the variables of a preview without a cluster; parameter as for `local_environment`."""
    return {
        **tool_path(folders),
        NO_CLUSTER_VARIABLE: "true",
        "KUBECONFIG": os.devnull,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def tool_path(folders: Sequence[Path]) -> dict[str, str]:
    """Return VIRTUAL_ENV, and PATH with this Python environment and the program folders first."""
    own = [str(Path(sys.prefix) / "bin"), *map(str, folders)]
    others = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if entry and entry not in own]
    return {"PATH": os.pathsep.join([*own, *others]), "VIRTUAL_ENV": sys.prefix}


def exports(variables: dict[str, str]) -> str:
    """Return shell ``export`` lines."""
    return "\n".join(
        "export {}='{}'".format(name, value.replace("'", "'\\''")) for name, value in sorted(variables.items())
    )
