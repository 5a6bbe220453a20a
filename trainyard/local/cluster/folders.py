"""Folders of clusters and programs on disk, and owner-only files."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainyard.atomic_write import atomic_write
from trainyard.errors import TrainyardError

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")

_STATE = ("TRAINYARD_STATE_HOME", "XDG_STATE_HOME", ".local/state")
_CACHE = ("TRAINYARD_CACHE_HOME", "XDG_CACHE_HOME", ".cache")
_CONFIG = ("TRAINYARD_CONFIG_HOME", "XDG_CONFIG_HOME", ".config")

HOME_VARIABLES = tuple(name for own, xdg, _ in (_STATE, _CACHE, _CONFIG) for name in (own, xdg))
"""Variables that place the folders of Trainyard."""


def state_home() -> Path:
    """Return the folder of persistent state: ``TRAINYARD_STATE_HOME``, or ``trainyard`` in the XDG state folder."""
    return _home(*_STATE)


def cache_home() -> Path:
    """Return the folder of reproducible files: ``TRAINYARD_CACHE_HOME``, or ``trainyard`` in the XDG cache folder."""
    return _home(*_CACHE)


def config_home() -> Path:
    """Return the folder of files that neither a cache nor a state may hold: ``trainyard`` in the XDG config folder."""
    return _home(*_CONFIG)


def _home(own: str, xdg: str, default: str) -> Path:
    if explicit := os.environ.get(own):
        return Path(explicit).absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / default).absolute() / "trainyard"


@dataclass(frozen=True)
class ClusterFolder:
    """The files of one cluster.

    Parameters
    ----------
    root
        Folder of the cluster.
    """

    root: Path

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self.root.name

    @property
    def state(self) -> Path:
        """File of the recorded ports and programs."""
        return self.root / "cluster.json"

    @property
    def pki(self) -> Path:
        """Folder of keys and certificates."""
        return self.root / "pki"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.root / "kubeconfig"

    @property
    def kubeconfigs(self) -> Path:
        """Folder of the kubeconfigs of the control plane's programs."""
        return self.root / "kubeconfigs"

    @property
    def configuration(self) -> Path:
        """Folder of the configuration files of the control plane's programs."""
        return self.root / "configuration"

    @property
    def etcd(self) -> Path:
        """Data folder of etcd."""
        return self.root / "etcd"

    @property
    def logs(self) -> Path:
        """Folder of log files, one per process."""
        return self.root / "logs"

    @property
    def processes(self) -> Path:
        """Folder of process records and of the files of host processes."""
        return self.root / "processes"

    @property
    def sockets(self) -> Path:
        """Folder of the Unix sockets that host processes share; near the root, because socket paths must be short."""
        return self.root / "run"

    @property
    def relay_socket(self) -> Path:
        """Unix socket of the proxy to the network of the nodes."""
        return self.sockets / "nodes.sock"

    @property
    def nodes(self) -> Path:
        """Folder of the files of nodes with a kubelet on this machine."""
        return self.root / "nodes"

    @property
    def pulumi(self) -> Path:
        """Folder of the Pulumi state."""
        return self.root / "pulumi"

    @property
    def lock(self) -> Path:
        """Lock file held while the cluster is started, stopped or deleted."""
        return self.root.parent / f".{self.name}.lock"

    def log(self, process: str) -> Path:
        """Return the log file of a process."""
        return self.logs / f"{process}.log"


def cluster_folder(name: str) -> ClusterFolder:
    """Return the folder of a cluster, which need not exist.

    Raises
    ------
    TrainyardError
        The name is not valid as a folder and a label.
    """
    if not _NAME.match(name):
        raise TrainyardError(
            f"{name!r} is not a valid cluster name",
            fix="use at most 63 lower-case letters, digits and dashes, such as local",
        )
    return ClusterFolder(state_home() / "clusters" / name)


def private_folder(path: Path) -> Path:
    """Create an owner-only folder and its parents."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    require_ownership(path)
    return path


def require_ownership(path: Path) -> None:
    """Raise an error if another user owns a file.

    Raises
    ------
    TrainyardError
        The path exists and belongs to another user.
    """
    try:
        owner = path.stat().st_uid
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unwritable(path, error) from error
    if owner != os.getuid():
        raise TrainyardError(
            f"{path} belongs to another user (uid {owner}, you are {os.getuid()})",
            fix="run the command as that user, use another --name, or set TRAINYARD_STATE_HOME to a folder of your own",
        )


def write_private(path: Path, content: bytes | str) -> None:
    """Write an owner-only file atomically.

    Raises
    ------
    TrainyardError
        The disk is full, or the folder is not writable.
    """
    private_folder(path.parent)
    data = content.encode() if isinstance(content, str) else content
    try:
        with atomic_write(path, 0o600) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> TrainyardError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TrainyardError(
            f"The disk is full: {path} cannot be written", fix=f"free space on the disk of {path.parent}"
        )
    return TrainyardError(
        f"{path} cannot be used: {error.strerror}", fix="check the owner and permissions of the folder"
    )


@contextmanager
def exclusive(path: Path, *, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a file lock, which ends with the process; wait if another process holds it.

    Parameters
    ----------
    path
        Lock file; it is not removed on release.
    on_wait
        Called once if another process holds the lock.
    """
    private_folder(path.parent)
    require_ownership(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
