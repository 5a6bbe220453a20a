"""Bundle of the policy server: the Rego of the rules, and data from their rule.yaml."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, Final

from trainyard.api import MLPolicy, PodGroupPolicy
from trainyard.api.extensions import ExtensiblePolicy
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.jobs.render.accelerators import ACCELERATORS
from trainyard.policy.rules.admission_rule import MISSING_PARAMETER_FIXES, PARTS, AdmissionRule, ParameterSource, Reach
from trainyard.policy.rules.plugins import CHILDREN
from trainyard.policy.rules.rule_catalog import load_rules, rego_source, rule_folders
from trainyard.settings.platform import PodTemplateSettings, PolicyState

ROOT: Final = "trainyard"
"""Root of the bundle: it owns ``data.trainyard``, below which nothing else may be loaded."""

_MANIFEST = ".manifest"

_BOUND: Final = {
    "everywhere": {Reach.EVERYWHERE},
    "tenants": {Reach.EVERYWHERE, Reach.TENANTS},
    "tenants and labelled": {*Reach},
}
"""Reaches that apply to a request, by their name in the entry point."""

_READABLE: Final = {
    "none": {ParameterSource.NONE},
    "Platform": {ParameterSource.NONE, ParameterSource.PLATFORM},
    "TenantPolicy": {ParameterSource.NONE, ParameterSource.TENANT_POLICY},
    "all": {*ParameterSource},
}
"""Available parameter sources, by their name in the entry point."""


@dataclass(frozen=True)
class Bundle:
    """Files of a bundle.

    Parameters
    ----------
    files
        Content by path in the bundle: ``.manifest``, ``data.json`` and the Rego.
    revision
        SHA-256 of all files except the manifest: equal rules have equal revisions.
    """

    files: Mapping[str, bytes]
    revision: str

    def write(self, path: Path) -> None:
        """Write the bundle as a tar.gz."""
        path.write_bytes(self.archive())

    def archive(self) -> bytes:
        """Return the bundle as a tar.gz; equal bundles yield identical bytes."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                entry.mode = 0o644
                archive.addfile(entry, io.BytesIO(content))
        return gzip.compress(buffer.getvalue(), mtime=0)


def verify_bundle(path: Path, revision: str) -> None:
    """Reject an archive whose content does not match its revision.

    Raises
    ------
    TrainyardError
        It cannot be read, or contains other rules.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            found = {entry.name: archive.extractfile(entry) for entry in archive if entry.isfile()}
            files = {name: file.read() for name, file in found.items() if file is not None}
        manifest = dict(json.loads(files.pop(_MANIFEST, b"{}")))
    except (OSError, tarfile.TarError, EOFError, ValueError, TypeError) as error:
        raise TrainyardError(
            f"policy bundle {path} cannot be read: {error}", fix="Install it with `trainyard up`"
        ) from error
    if {manifest.get("revision"), _revision(files)} != {revision}:
        raise TrainyardError(
            f"policy bundle {path} has rules of another revision than {revision}", fix="Install it with `trainyard up`"
        )


def package_name(rule_id: str) -> str:
    """Return the last segment of a rule's Rego package: ``QUE-002`` is ``trainyard.rules.que_002``."""
    return rule_id.lower().replace("-", "_")


def build_bundle(*folders: Path, rules: Iterable[AdmissionRule] | None = None) -> Bundle:
    """Return the bundle of the shipped rules and of further folders.

    Parameters
    ----------
    folders
        Catalog folders beside the shipped one.
    rules
        The rules of these folders, if already loaded.

    Raises
    ------
    TrainyardError
        A rule is invalid, or has no Rego.
    """
    catalogs = [data_folder("policies"), *folders]
    known = {rule.id: rule for rule in (load_rules(*catalogs) if rules is None else rules)}
    files: dict[str, bytes] = {}
    for path in sorted((catalogs[0] / "lib").glob("*.rego")):
        files[f"lib/{path.name}"] = path.read_bytes()
    for folder in (folder for catalog in catalogs for folder in rule_folders(catalog)):
        rule = next((rule for rule in known.values() if folder.name.startswith(f"{rule.id}-")), None)
        if rule is None:
            continue
        files[f"rules/{folder.name}.rego"] = rego_source(rule, folder).encode()
    data = {
        "catalog": _catalog(known.values()),
        "index": _index(known.values()),
        "off": sorted(rule.id for rule in known.values() if rule.state is PolicyState.OFF),
        "podTemplates": _pod_templates(known.values()),
        "missingParameters": {source.value: fix for source, fix in MISSING_PARAMETER_FIXES.items()},
        "sources": _sources(),
        "children": CHILDREN,
        "accelerators": {key: asdict(patterns) for key, patterns in ACCELERATORS.items()},
    }
    files["data.json"] = _json({ROOT: data})
    return bundle_files(files, (ROOT,))


def bundle_files(files: Mapping[str, bytes], roots: Iterable[str]) -> Bundle:
    """Return files as a bundle, with manifest and revision.

    Parameters
    ----------
    files
        Content by path.
    roots
        Paths below ``data`` that the bundle owns.
    """
    revision = _revision(files)
    manifest = _json({"revision": revision, "roots": list(roots), "rego_version": 1})
    return Bundle({**files, _MANIFEST: manifest}, revision)


def _revision(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _catalog(rules: Iterable[AdmissionRule]) -> dict[str, Any]:
    return {rule.id: _entry(rule) for rule in sorted(rules, key=lambda rule: rule.id)}


def _entry(rule: AdmissionRule) -> dict[str, Any]:
    """Return the data by which the entry point selects a rule."""
    cel = rule.cel
    return {
        "title": rule.title,
        "severity": rule.severity.value,
        "state": rule.state.value,
        "fix": rule.fix,
        "reach": rule.reach.value,
        "source": rule.source.value,
        "unchanged": bool(cel and cel.unchanged),
        "stopping": bool(cel and cel.stopping),
        "deleting": bool(cel and cel.deleting),
        "parameters": rule.parameter_values({}),
        "touching": _touching(rule),
        "matches": [
            {"group": match.group, "kind": match.kind, "operations": list(match.operations), "scope": match.scope}
            for match in rule.matches
        ],
    }


def _touching(rule: AdmissionRule) -> dict[str, dict[str, list[str]]]:
    """Return the parts of which an update must change one, by group and kind, unless all parts count."""
    found: dict[str, dict[str, list[str]]] = {}
    for match in rule.matches:
        if match.touching != PARTS:
            found.setdefault(match.group, {})[match.kind] = list(match.touching)
    return found


def _index(rules: Iterable[AdmissionRule]) -> dict[str, Any]:
    """Return the index: packages of the rules to evaluate, by the properties of a request.

    The levels are group, kind, subresource, operation, applicable reaches, and available parameter sources; below them
    are the packages by id. With the index, the entry point does not test every rule, which would take most of a
    decision's time.
    """
    found: dict[str, Any] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        for match in rule.matches:
            subresource = match.resource.partition("/")[2]
            for operation, (bound, reaches), (readable, sources) in product(
                match.operations, _BOUND.items(), _READABLE.items()
            ):
                steps = match.group, match.kind, subresource, operation, bound, readable
                packages = reduce(lambda level, step: level.setdefault(step, {}), steps, found)
                if rule.reach in reaches and rule.source in sources:
                    packages[rule.id] = package_name(rule.id)
    return found


def _pod_templates(rules: Iterable[AdmissionRule]) -> dict[str, dict[str, list[dict[str, list[str]]]]]:
    """Return the places of the pod templates of listed kinds, by group and kind."""
    listed = {(match.group, match.kind): match.templates for rule in rules for match in rule.matches if match.templates}
    found: dict[str, dict[str, list[dict[str, list[str]]]]] = {}
    for (group, kind), templates in listed.items():
        found.setdefault(group, {})[kind] = [_template_places(each) for each in templates]
    return found


def _template_places(template: PodTemplateSettings) -> dict[str, list[str]]:
    listed, dot, rest = template.path.rpartition("[].")
    path = rest.split(".")
    beside = [*path[:-1], template.replicas] if template.replicas else []
    return {"list": listed.split(".") if dot else [], "path": path, "beside": beside}


def _sources() -> dict[str, list[str]]:
    """Return the mutually exclusive fields, by the policy that contains them."""
    policies: Mapping[str, type[ExtensiblePolicy]] = {"mlPolicy": MLPolicy, "podGroupPolicy": PodGroupPolicy}
    return {name: list(policy.plugins()) for name, policy in policies.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
