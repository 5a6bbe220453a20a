"""Load stack settings; each error has file, path, value and fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.settings.messages import CONFIG_NAMESPACE, findings_of
from trainyard.settings.stack import StackSettings


def stack_file(stack: str, folder: Path) -> Path:
    """Return the settings file of a stack.

    Raises
    ------
    TrainyardError
        If the stack does not exist; the message lists existing stacks.
    """
    path = folder / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        files = folder.glob("Pulumi.*.yaml")
        stacks = sorted(entry.name.removeprefix("Pulumi.").removesuffix(".yaml") for entry in files)
        raise TrainyardError(
            f"Stack {stack!r} does not exist: no file {path}",
            fix=f"use one of: {', '.join(stacks) or 'none found'}; or create the file",
        )
    return path


def load_stack(path: Path, project: Path | None = None) -> StackSettings:
    """Read one stack file.

    Parameters
    ----------
    path
        The file.
    project
        Project file with values for the keys that the stack lacks, which Pulumi applies; None: the stack file alone.

    Raises
    ------
    TrainyardError
        If a file cannot be read, is not valid YAML, or contains invalid settings; lists every finding.
    """
    document, source = load(read_text(path), str(path)), str(path)
    if project is not None and project.is_file() and isinstance(document, dict):
        config = document.get("config") or {}
        added = {key: value for key, value in _project_values(project).items() if key not in config}
        if any(added.values()):
            source = f"{path} with {project}"
        if added and isinstance(config, dict):
            document = {**document, "config": {**config, **added}}
    return stack_settings(document, source=source)


def _project_values(path: Path) -> dict[str, Any]:
    """Return the settings that a project file gives the stacks that lack them, by key.

    Upstream source: ``mergeConfig`` and ``RewriteShorthandConfigValues`` of Pulumi. Keys without a namespace have that
    of the project, a default precedes a value, and a value replaces nothing inside that of a stack.
    """
    document = load(read_text(path), str(path))
    declared = document.get("config") if isinstance(document, dict) else None
    if not isinstance(declared, dict):
        return {}
    found = {}
    for name, entry in declared.items():
        key = str(name) if ":" in str(name) else f"{document.get('name')}:{name}"
        value = entry
        if isinstance(entry, dict):
            value = entry["value"] if entry.get("default") is None and "value" in entry else entry.get("default")
        if key.startswith(f"{CONFIG_NAMESPACE}:") and value is not None:
            found[key] = value
    return found


def has_environment(path: Path) -> bool:
    """Return whether a stack file imports values of ESC environments, which only Pulumi reads."""
    document = load(read_text(path), str(path))
    return isinstance(document, dict) and bool(document.get("environment"))


def stack_settings(document: object, *, source: str) -> StackSettings:
    """Validate the document of one stack file.

    Parameters
    ----------
    document
        Parsed YAML document.
    source
        Source in error messages.

    Raises
    ------
    TrainyardError
        If settings are invalid; lists every finding.
    """
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        fix = f"add config: with keys such as {CONFIG_NAMESPACE}:cluster"
        if isinstance(document, dict) and "environment" in document:
            fix += "; this command does not read the values of its ESC environment"
        raise TrainyardError(f"{source} has no config section", fix=fix)
    findings = [finding for key in config if (finding := _foreign_key(str(key))) is not None]
    if findings:
        raise TrainyardError(f"The settings in {source} are invalid", findings=findings)
    prefix = f"{CONFIG_NAMESPACE}:"
    values = {key.removeprefix(prefix): value for key, value in config.items() if str(key).startswith(prefix)}
    reject_secrets((path for key, value in values.items() for path in _encrypted(key, value)), source=source)
    return parse_stack(values, source=source)


def reject_secrets(paths: Iterable[str], *, source: str) -> None:
    """Reject settings that are secrets.

    Parameters
    ----------
    paths
        Paths of the secrets, without the namespace prefix.
    source
        Source in error messages.

    Raises
    ------
    TrainyardError
        Names each path, without its value.
    """
    message = "is a secret, but settings become part of Kubernetes objects and previews in clear text"
    fix = "set it without --secret, or put the value into a Secret of the cluster"
    fixes = {"cluster.kubeconfig": "set the path without --secret; the file is what is secret"}
    if findings := [Finding(f"{CONFIG_NAMESPACE}:{path}", message, fixes.get(path, fix)) for path in sorted(paths)]:
        raise TrainyardError(f"The settings in {source} are invalid", findings=findings)


def parse_stack(values: Mapping[str, Any], *, source: str) -> StackSettings:
    """Validate the settings of a stack.

    Parameters
    ----------
    values
        Settings by key, without the namespace prefix.
    source
        Source in error messages.

    Raises
    ------
    TrainyardError
        If settings are invalid; lists every finding with path, value and fix.
    """
    try:
        return StackSettings.model_validate(dict(values))
    except ValidationError as error:
        raise TrainyardError(f"The settings in {source} are invalid", findings=findings_of(error)) from error


def _encrypted(path: str, value: object) -> Iterator[str]:
    """Yield the paths of values that ``pulumi config set --secret`` wrote."""
    if isinstance(value, dict):
        if value.keys() == {"secure"} and isinstance(value["secure"], str):
            yield path
        else:
            for key, each in value.items():
                yield from _encrypted(f"{path}.{key}", each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _encrypted(f"{path}[{index}]", each)


def _foreign_key(key: str) -> Finding | None:
    namespace, colon, name = key.partition(":")
    if not colon:
        return Finding(key, "setting without a namespace", f"write {CONFIG_NAMESPACE}:{key}")
    if namespace != CONFIG_NAMESPACE and difflib.get_close_matches(namespace, [CONFIG_NAMESPACE], cutoff=0.75):
        return Finding(key, f"unknown namespace {namespace!r}", f"did you mean {CONFIG_NAMESPACE}:{name}?")
    return None
