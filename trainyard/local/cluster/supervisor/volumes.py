"""ConfigMaps and Secrets as local folders, updated atomically as by a kubelet."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard.local.cluster.folders import private_folder
from trainyard.local.cluster.supervisor.pod_requirements import VolumeSource

_CURRENT = "..data"


def content(volume: VolumeSource, body: Mapping[str, Any] | None) -> dict[str, bytes] | None:
    """Return the files of a volume by path, or None while its source or a key is missing.

    Parameters
    ----------
    volume
        The volume.
    body
        The ConfigMap or Secret; None if it does not exist.
    """
    if body is None:
        return {} if volume.optional else None
    values = {key: base64.b64decode(value) for key, value in (body.get("binaryData") or {}).items()}
    for key, value in (body.get("data") or {}).items():
        values[key] = base64.b64decode(value) if volume.kind == "secret" else value.encode()
    if volume.items is None:
        return values
    missing = [key for key, _ in volume.items if key not in values]
    if missing and not volume.optional:
        return None
    return {path: values[key] for key, path in volume.items if key in values}


def sync(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Set the files of a folder atomically; return whether they have changed."""
    digest = hashlib.sha256()
    for path, data in sorted(files.items()):
        digest.update(f"{path}\0{len(data)}\0".encode() + data)
    version = f"..{digest.hexdigest()[:24]}"
    current = folder / _CURRENT
    if current.is_symlink() and str(current.readlink()) == version and (folder / version).is_dir():
        return False
    private_folder(folder)
    shutil.rmtree(folder / version, ignore_errors=True)
    private_folder(folder / version)
    for path, data in files.items():
        target = folder / version / path
        private_folder(target.parent)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
    _link(folder, _CURRENT, version)
    for name in {Path(path).parts[0] for path in files}:
        if not (folder / name).is_symlink():
            _link(folder, name, f"{_CURRENT}/{name}")
    for entry in folder.iterdir():
        if entry.name in (_CURRENT, version):
            continue
        if entry.is_symlink() and not entry.exists():
            entry.unlink()
        elif entry.is_dir() and not entry.is_symlink() and entry.name.startswith(".."):
            shutil.rmtree(entry, ignore_errors=True)
    return True


def _link(folder: Path, name: str, target: str) -> None:
    temporary = folder / f"..{name.strip('.')}.new"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(folder / name)
