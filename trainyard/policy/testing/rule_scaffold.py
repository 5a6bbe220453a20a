"""Scaffold of a new, working rule folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.bundle import package_name
from trainyard.policy.rules.rule_catalog import load_rules, rule_folders
from trainyard.policy.testing.case_files import CASES

WITHDRAWN: Final = frozenset({"TEN-014"})
"""Ids of rules that are gone: baselines and settings of users may still name them, so no other rule gets one."""

_RULE = """\
id: {id}
title: {title}
description: >-
  Describe what the rule rejects, and what fails without it.
severity: error
state: warn
since: 0.1.0
reach: everywhere
matches:
  - {{group: trainer.kubeflow.org, version: v1alpha1, kind: TrainJob, resource: trainjobs}}
fix: remove the annotation
cel:
  validations:
    - expression: '!("example.com/{slug}" in object.metadata.?annotations.orValue({{}}))'
      path: metadata.annotations[example.com/{slug}]
      message: the annotation is not allowed
"""
_REGO = """\
package trainyard.rules.{package}

import data.trainyard.lib.request
import rego.v1

annotation := "example.com/{slug}"

violation contains {{"path": path, "message": "the annotation is not allowed"}} if {{
	annotation in object.keys(request.map(request.metadata, "annotations"))
	path := sprintf("metadata.annotations[%s]", [annotation])
}}
"""
_CASES = """\
cases:
  - name: absent
    verdict: allow
    about: Without the annotation, the object is valid.
    base: trainjob
  - name: present
    verdict: warn
    about: With the annotation, it is not; set the verdict to deny together with the rule's state.
    base: trainjob
    add: {{metadata.annotations: {{example.com/{slug}: "yes"}}}}
    paths: ["metadata.annotations[example.com/{slug}]"]
"""


def new_rule(folder: Path, rule_id: str, slug: str, family: str, *, known: Path | None = None) -> list[Path]:
    """Write a rule folder with one rule and two cases.

    Parameters
    ----------
    folder
        Catalog folder to write into.
    rule_id
        Unused id, such as QUE-003; ids are never reused.
    slug
        Short name for the folder, hyphenated.
    family
        Parent folder, such as tenancy.
    known
        Further catalog whose ids must not be reused.

    Returns
    -------
    list[Path]
        Written files.

    Raises
    ------
    TrainyardError
        The id is taken, or a name is invalid.
    """
    _check_names(rule_id, slug, family)
    if rule_id in WITHDRAWN:
        raise TrainyardError(f"{rule_id} was the id of a withdrawn rule", fix="choose an id that no rule had")
    for catalog in {folder, known or folder}:
        _check_unused(rule_id, catalog)
    target = folder / family / f"{rule_id}-{slug}"
    title = slug.replace("-", " ").capitalize()
    files = {
        "rule.yaml": _RULE,
        "rule.rego": _REGO,
        CASES: _CASES,
    }
    written = []
    for name, template in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.format(id=rule_id, slug=slug, title=title, package=package_name(rule_id)))
        written.append(path)
    return written


def _check_names(rule_id: str, slug: str, family: str) -> None:
    for value, pattern, example in (
        (rule_id, r"[A-Z]{3}-[0-9]{3}", "QUE-003"),
        (slug, r"[a-z0-9]+(-[a-z0-9]+)*", "leaf-queues"),
        (family, r"[a-z]+", "tenancy"),
    ):
        if not re.fullmatch(pattern, value):
            raise TrainyardError(f"{value!r} is invalid", fix=f"use the format of {example}")


def _check_unused(rule_id: str, catalog: Path) -> None:
    rules = load_rules(catalog) if rule_folders(catalog) else ()
    taken = next((rule for rule in rules if rule.id == rule_id), None)
    if taken is not None:
        raise TrainyardError(
            f"{rule_id} is taken by {taken.family}/{taken.id}-{taken.slug}",
            fix="ids are never reused: take the next free one",
        )


def next_steps(rule_id: str, folder: Path) -> list[str]:
    """Return lines about what follows a new rule: the tests to run, and the fragments that it can use.

    Parameters
    ----------
    rule_id
        Id of the rule.
    folder
        Catalog with the folder ``lib`` of fragments.
    """
    cel, rego = (
        ", ".join(sorted(path.name.removesuffix(suffix) for path in (folder / "lib").glob(f"*{suffix}")))
        for suffix in (".cel.yaml", ".rego")
    )
    return [
        f"Run its cases: trainyard policy test --rule {rule_id}",
        f"Fragments of CEL, for `use` in rule.yaml: {cel}",
        f"Fragments of Rego, as data.trainyard.lib.NAME: {rego}",
        "How rules and cases are written: policies/README.md",
    ]
