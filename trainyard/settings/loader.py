"""Load stack settings; every error becomes one line: file, path, value, fix."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.problem import Problem, TrainyardError
from trainyard.settings.messages import CONFIG_NAMESPACE, problems_of
from trainyard.settings.stack import StackSettings

__all__ = ["CONFIG_NAMESPACE", "load_stack", "parse_stack", "stack_file", "stack_settings"]


def stack_file(stack: str, folder: Path) -> Path:
    """Return the settings file of a stack.

    Raises
    ------
    TrainyardError
        There is no such stack; the message lists those that exist.
    """
    path = folder / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        files = folder.glob("Pulumi.*.yaml")
        stacks = sorted(entry.name.removeprefix("Pulumi.").removesuffix(".yaml") for entry in files)
        raise TrainyardError(
            f"There is no stack {stack!r}: {path} does not exist",
            fix=f"use one of: {', '.join(stacks) or 'none found'}; or create the file",
        )
    return path


def load_stack(path: Path) -> StackSettings:
    """Read one stack file.

    Raises
    ------
    TrainyardError
        The file cannot be read, is not YAML, or its settings are wrong; every finding is listed.
    """
    return stack_settings(load(read_text(path), str(path)), source=str(path))


def stack_settings(document: object, *, source: str) -> StackSettings:
    """Validate the document of one stack file.

    Parameters
    ----------
    document
        What its YAML says.
    source
        Where it comes from, named in errors.

    Raises
    ------
    TrainyardError
        Its settings are wrong; every finding is listed.
    """
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        fix = f"add config: with keys such as {CONFIG_NAMESPACE}:cluster"
        raise TrainyardError(f"{source} has no config section", fix=fix)
    problems = [problem for key in config if (problem := _foreign_key(str(key))) is not None]
    if problems:
        raise TrainyardError(f"The settings in {source} are wrong", problems=problems)
    prefix = f"{CONFIG_NAMESPACE}:"
    values = {key.removeprefix(prefix): value for key, value in config.items() if str(key).startswith(prefix)}
    return parse_stack(values, source=source)


def parse_stack(values: Mapping[str, Any], *, source: str) -> StackSettings:
    """Validate the settings of a stack.

    Parameters
    ----------
    values
        Setting by key, without the namespace prefix.
    source
        Where they come from, named in errors.

    Raises
    ------
    TrainyardError
        Something is wrong; every finding is listed with its path, value and fix.
    """
    try:
        return StackSettings.model_validate(dict(values))
    except ValidationError as error:
        raise TrainyardError(f"The settings in {source} are wrong", problems=problems_of(error)) from error


def _foreign_key(key: str) -> Problem | None:
    namespace, colon, name = key.partition(":")
    if not colon:
        return Problem(key, "setting without a namespace", f"write {CONFIG_NAMESPACE}:{key}")
    if namespace != CONFIG_NAMESPACE and difflib.get_close_matches(namespace, [CONFIG_NAMESPACE], cutoff=0.75):
        return Problem(key, f"unknown namespace {namespace!r}", f"did you mean {CONFIG_NAMESPACE}:{name}?")
    return None
