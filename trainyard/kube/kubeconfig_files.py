"""Kubeconfig files of a list such as ``KUBECONFIG=a:b``, merged as kubectl does: the first file wins for each entry.

Upstream source: ``ClientConfigLoadingRules.Load`` in client-go. Files of a list that do not exist are skipped. Relative
paths are relative to the folder of their own file, so they become absolute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from trainyard.errors import TrainyardError

_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PATHS = {
    "clusters": ("certificate-authority",),
    "contexts": (),
    "users": ("client-certificate", "client-key", "tokenFile"),
}


def files_of(text: str) -> list[Path]:
    """Return the files of a path or a list of paths; of a list, those that exist."""
    whole = Path(text).expanduser()
    if whole.is_file():
        return [whole]
    listed = [Path(part).expanduser() for part in dict.fromkeys(filter(None, text.split(os.pathsep)))]
    return [path for path in listed if path.is_file()] or listed or [whole]


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """Return one kubeconfig of several files.

    Raises
    ------
    TrainyardError
        A file cannot be read, or is not a kubeconfig.
    """
    result: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", **{section: [] for section in _SECTIONS}}
    for path in files:
        body = _read(path)
        if body.get("current-context") and "current-context" not in result:
            result["current-context"] = body["current-context"]
        for section, key in _SECTIONS.items():
            known = {entry["name"] for entry in result[section]}
            for entry in body.get(section) or ():
                if entry["name"] not in known:
                    known.add(entry["name"])
                    fields = _absolute(entry.get(key) or {}, _PATHS[section], path.absolute().parent)
                    result[section].append({"name": entry["name"], key: fields})
    return result


def selected(files: Sequence[Path], context: str) -> tuple[dict[str, Any], Path | None]:
    """Return the merged kubeconfig with one context alone, and the file that has all of it, if one has.

    Raises
    ------
    TrainyardError
        A file cannot be read, or no file has the context, its cluster or its user.
    """
    whole, listed = merged(files), ", ".join(map(str, files))
    [entry] = _named(whole, "contexts", context) or [{"context": {}}]
    wanted = {"contexts": context, "clusters": entry["context"].get("cluster"), "users": entry["context"].get("user")}
    result: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": context}
    for section, name in wanted.items():
        result[section] = _named(whole, section, name) if name else []
        if not result[section] and (name or section == "clusters"):
            raise TrainyardError(
                f"kubeconfigs {listed}: no {_SECTIONS[section]} {name!r}", fix="correct the files, or KUBECONFIG"
            )
    for path in files:
        alone = merged([path])
        if all(_named(alone, section, name) == result[section] for section, name in wanted.items()):
            return result, path
    return result, None


def _named(body: Mapping[str, Any], section: str, name: object) -> list[dict[str, Any]]:
    return [entry for entry in body[section] if entry["name"] == name]


def _read(path: Path) -> dict[str, Any]:
    try:
        body = yaml.safe_load(path.read_text())
        for section, key in _SECTIONS.items() if body is not None else ():
            for entry in body.get(section) or ():
                _absolute({"name": entry["name"], **(entry.get(key) or {})}, (), path)
    except OSError as error:
        raise TrainyardError(f"kubeconfig {path}: {error.strerror}", fix="correct KUBECONFIG") from error
    except (yaml.YAMLError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise TrainyardError(f"{path} is not a kubeconfig", fix="correct the file, or KUBECONFIG") from error
    return body or {}  # kubectl accepts an empty file


def _absolute(fields: Mapping[str, Any], keys: Sequence[str], folder: Path) -> dict[str, Any]:
    found = {**fields, **{key: str(folder / fields[key]) for key in keys if fields.get(key)}}
    command = (fields.get("exec") or {}).get("command", "")
    if "/" in command:
        found["exec"] = {**fields["exec"], "command": str(folder / command)}
    return found
