"""Rule catalog: load and validate the rule folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainyard.checks.finding import Finding
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.policy.rules.admission_rule import AdmissionRule, Fragment
from trainyard.policy.rules.forbidden_fields import rego_of
from trainyard.policy.rules.plugins import expand_placeholders, expand_variables

Model = TypeVar("Model", bound=BaseModel)

_FIX = "compare with a rule folder of policies/, or create one with: trainyard policy new ID SLUG --family FAMILY"


def load_rules(*folders: Path) -> list[AdmissionRule]:
    """Load all rules.

    Parameters
    ----------
    folders
        Catalog folders; the shipped one if unset. Ids must be unique.

    Returns
    -------
    list[Rule]
        Sorted by id.

    Raises
    ------
    TrainyardError
        A folder has no rules, or a rule is invalid; every finding names the folder, or the file and the field.
    """
    catalogs = {folder: rule_folders(folder) for folder in folders or (data_folder("policies"),)}
    # A mistyped folder would otherwise delete its admission policies from the cluster.
    if findings := [_without_rules(folder) for folder, found in catalogs.items() if not found]:
        raise TrainyardError("A folder of rules is invalid", findings=findings)
    rules: dict[str, AdmissionRule] = {}
    for found in catalogs.values():
        for rule_folder in found:
            rule = _load_rule(rule_folder)
            if rule.id in rules:
                raise TrainyardError(
                    f"Rule {rule.id} exists twice: {rule_folder} and family {rules[rule.id].family}",
                    fix="ids are never reused: use the next free one",
                )
            rules[rule.id] = rule
    return [rules[rule_id] for rule_id in sorted(rules)]


def rule_folders(folder: Path) -> list[Path]:
    """Return the rule folders ``<family>/<ID>-<slug>`` of a catalog."""
    return sorted(path.parent for path in folder.glob("*/*/rule.yaml"))


def rego_source(rule: AdmissionRule, folder: Path) -> str:
    """Return the Rego of a rule: generated from its forbidden fields, or of its file.

    Parameters
    ----------
    rule
        The rule.
    folder
        Its folder.

    Raises
    ------
    TrainyardError
        There is neither, or both.
    """
    path, package = folder / "rule.rego", f"trainyard.rules.{rule.id.lower().replace('-', '_')}"
    if rule.forbidden:
        if path.is_file():
            raise TrainyardError(
                f"Rule {rule.id} has two sources of Rego: {path} and forbidden in rule.yaml", fix="remove one of them"
            )
        return rego_of(package, rule.forbidden)
    if not path.is_file():
        raise TrainyardError(
            f"Rule {rule.id} has no Rego: {path} does not exist",
            fix=f"write it (package {package}), or forbidden in rule.yaml; see docs/reference/rules.md",
        )
    return read_text(path)


def fragments() -> dict[str, Fragment]:
    """Return the shared CEL fragments by name: the files of ``lib`` in the shipped catalog."""
    library = data_folder("policies") / "lib"
    return {
        path.name.removesuffix(".cel.yaml"): validated(Fragment, expand_variables(read_yaml(path)), path)
        for path in sorted(library.glob("*.cel.yaml"), key=str)
    }


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that contains one mapping; a duplicate key is an error."""
    document = load(read_text(path), str(path))
    if not isinstance(document, dict):
        raise TrainyardError(f"{path} is not a mapping", fix=_FIX)
    return document


def validated(model: type[Model], document: dict[str, Any], path: Path) -> Model:
    """Parse a document as a model; errors name the file and each field."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        findings = [
            Finding(".".join(map(str, entry["loc"])), entry["msg"].removeprefix("Value error, "))
            for entry in error.errors()
        ]
        raise TrainyardError(f"{path} is invalid", fix=_FIX, findings=findings) from error


def _without_rules(folder: Path) -> Finding:
    message = "this folder has no rules" if folder.is_dir() else "this folder does not exist"
    return Finding(str(folder), message, "name a folder that contains <family>/<ID>-<slug>/rule.yaml")


def _load_rule(folder: Path) -> AdmissionRule:
    path = folder / "rule.yaml"
    document = read_yaml(path)
    prefix, number, slug = (*folder.name.split("-", 2), "", "")[:3]
    if document.get("id") != f"{prefix}-{number}" or not slug:
        raise TrainyardError(
            f"{path}: id {document.get('id')!r} does not match the folder name {folder.name!r}",
            fix="name the folder <ID>-<slug>",
        )
    return validated(AdmissionRule, {**expand_placeholders(document), "family": folder.parent.name, "slug": slug}, path)
