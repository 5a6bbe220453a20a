"""The rules of the catalog for Gatekeeper: the same Rego, in a ConstraintTemplate and a constraint a rule.

What a rule asks of the request, of the Platform, the TenantPolicy and the runtime, it asks of ``policies/lib/request``.
That file alone is different here: it reads Gatekeeper's review, and the objects that Gatekeeper synchronizes into
``data.inventory``. What the API server's policies say of kinds, namespaces and conditions is in the constraint and in
the template's entry point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from trainyard.api.constants import API_VERSION, PLATFORM_API_VERSION, PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.data import data_folder
from trainyard.jobs.render.accelerators import ACCELERATORS
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL, rule_state
from trainyard.policy.rules.admission_rule import PARTS, AdmissionRule, EnforcementPoint, ParameterSource, Reach
from trainyard.policy.rules.plugins import CHILDREN
from trainyard.policy.rules.rule_catalog import rego_source, rule_folders
from trainyard.settings.platform import PolicySettings, PolicyState

TARGET: Final = "admission.k8s.gatekeeper.sh"
CONSTRAINTS: Final = "constraints.gatekeeper.sh/v1beta1"
_ACTIONS = {PolicyState.DENY: "deny", PolicyState.WARN: "warn", PolicyState.AUDIT: "dryrun"}
_IMPORT = re.compile(r"^import data\.lib\.(?!rule$)([a-z_]+)(?: as [a-z_]+)?$", re.MULTILINE)
_MOVED = (
    ("import rego.v1\n", ""),
    ("package trainyard.lib.", "package lib."),
    ("import data.trainyard.lib.", "import data.lib."),
    ("input.exemptNamespaces", "input.parameters.exemptNamespaces"),
    ("data.trainyard.children", json.dumps(CHILDREN)),
)
_LIMITS = f'data.inventory.namespace[namespace]["{PLATFORM_API_VERSION}"].TenantPolicy.{TENANT_POLICY_NAME}.spec'
_RUNTIME = f"""runtime := data.inventory.cluster["{API_VERSION}"].ClusterTrainingRuntime[named_runtime] if {{
	object_get(map(spec, "runtimeRef"), "kind", "ClusterTrainingRuntime") == "ClusterTrainingRuntime"
}}

runtime := data.inventory.namespace[namespace]["{API_VERSION}"].TrainingRuntime[named_runtime] if {{
	map(spec, "runtimeRef").kind == "TrainingRuntime"
}}

named_runtime := object_get(map(spec, "runtimeRef"), "name", "")"""
_USER = """user := {
	"name": object_get(input.review.userInfo, "username", ""),
	"groups": list(input.review.userInfo, "groups"),
	"administrator": false,
}"""
_OPERATION = """operation := input.review.operation if {
	input.review.operation != ""
} else := "CREATE"
"""
"""What is checked without an API server has no operation."""
_LABELS = 'map(map(map(input.review, "namespaceObject"), "metadata"), "labels")'
_REQUEST = (
    ("runtime := input.request.runtime\n", f"{_RUNTIME}\n"),
    ("namespace := input.request.namespace\n", 'namespace := object_get(input.review, "namespace", "")\n'),
    ("operation := input.request.operation\n", _OPERATION),
    ("input.request.namespaceLabels", _LABELS),
    ("user := input.request.user", _USER),
    ("input.params.platform", f'data.inventory.cluster["{PLATFORM_API_VERSION}"].Platform.{PLATFORM_NAME}.spec'),
    ("input.params.tenantPolicy", _LIMITS),
    ("input.parameters[id][name]", "input.parameters[name]"),
    (" else := data.trainyard.catalog[id].parameters[name]", ""),
    ("input.request", "input.review"),
)
_TABLES = {
    "data.trainyard.accelerators": json.dumps({key: asdict(patterns) for key, patterns in ACCELERATORS.items()}),
    "data.trainyard.podTemplates": 'json.unmarshal("{}")',
}
"""Data of the bundle, which a template has as the constant ``table``, in Rego. The catalog lists no controllers."""
_ENTRY = """package trainyard

import data.lib.request
import data.lib.rule

violation contains {"msg": message, "details": {"path": found.path}} if {
	judging
	some found in rule.violation
	message := sprintf("%(id)s %%s: %%s", [found.path, found.message])
}
%(missing)s
judging if {
	readable
	concerned
}

concerned if {
	request.operation in object.get(operations, concat("/", [request.api_group, request.kind, request.subresource]), [])
	not request.metadata.deletionTimestamp
	not passes_by
}

passes_by if {
	request.operation == "UPDATE"
	parts := object.get(touching, concat("/", [request.api_group, request.kind]), null)
	is_array(parts)
	every part in parts {
		untouched(part)
	}
}

untouched("spec") if {
	request.object_get(request.object, "spec", null) == request.object_get(request.old_object, "spec", null)
}

untouched(part) if {
	part != "spec"
	old := object.get(request.old_object, "metadata", {})
	request.object_get(request.metadata, part, null) == request.object_get(old, part, null)
}

operations := %(operations)s

touching := %(touching)s
%(source)s%(stopping)s"""
_MISSING = """
violation contains {"msg": message, "details": {"path": "parameters"}} if {
	message := "%(id)s parameters: %(source)s is missing"
	request.operation == "CREATE"
	concerned
	not readable
	not request.namespace in input.parameters.exemptNamespaces%(ordinary)s
}
"""
_ORDINARY = """
	not ordinary
}

ordinary if {
	not contains(request.api_group, ".")
	not request.namespace_labels["trainyard.dev/tenant"]"""
_STOPPING = """
passes_by if {
	request.operation == "UPDATE"
	request.spec.suspend == true
}
"""


def gatekeeper_objects(
    rules: Iterable[AdmissionRule], settings: PolicySettings, exempt_namespaces: Iterable[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return ConstraintTemplates and constraints of every rule that the CRDs do not carry themselves.

    Parameters
    ----------
    rules
        The catalog.
    settings
        States of single rules where a stack sets them.
    exempt_namespaces
        Namespaces of the platform.
    """
    exempt = sorted(exempt_namespaces)
    folders = {folder.name[:7]: folder for folder in rule_folders(data_folder("policies"))}
    templates, constraints = [], []
    for rule in rules:
        state = rule_state(rule, settings)
        if rule.gate is not EnforcementPoint.CRD and state is not PolicyState.OFF:
            templates.append(_template(rule, state, rego_source(rule, folders[rule.id])))
            constraints.append(_constraint(rule, state, exempt))
    return templates, constraints


def webhook_rules(rules: Iterable[AdmissionRule]) -> list[dict[str, Any]]:
    """Return what the API server is to ask Gatekeeper about: what any rule evaluates."""
    wanted: dict[tuple[str, str, str], set[str]] = {}
    for rule in rules:
        if rule.gate is not EnforcementPoint.CRD:
            for match in rule.matches:
                wanted.setdefault((match.group, match.version, match.resource), set()).update(match.operations)
    return [
        {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": sorted(operations)}
        for (group, version, resource), operations in sorted(wanted.items())
    ]


def library(source: str, folder: Path | None = None) -> list[str]:
    """Return the modules that a Rego source imports, those that these import too, in the order of their names."""
    folder = folder or data_folder("policies") / "lib"
    found: dict[str, str] = {}
    pending = [source]
    while pending:
        for name in sorted(set(_IMPORT.findall(pending.pop())) - set(found)):
            found[name] = _moved((folder / f"{name}.rego").read_text())
            if name == "request":
                found[name] = _reading_reviews(found[name])
            for data, table in _TABLES.items():
                if data in found[name]:
                    found[name] = f"{found[name].replace(data, 'table')}\ntable := {table}\n"
            pending.append(found[name])
    return [text for _, text in sorted(found.items())]


def entry_point(rule: AdmissionRule, state: PolicyState) -> str:
    """Return the Rego that says when a rule applies, and whether what it reads exists."""
    source = rule.source is not ParameterSource.NONE
    missing = ""
    if source and state is PolicyState.DENY:
        ordinary = _ORDINARY if rule.source is ParameterSource.TENANT_POLICY else ""
        missing = _MISSING % {"id": rule.id, "source": rule.source.value, "ordinary": ordinary}
    read = "request.platform" if rule.source is ParameterSource.PLATFORM else "request.tenant_policy"
    cel = rule.cel
    return _ENTRY % {
        "id": rule.id,
        "missing": missing,
        "operations": json.dumps(_operations(rule), indent="\t"),
        "touching": json.dumps(_touching(rule), indent="\t"),
        "source": f"\nreadable if is_object({read})\n" if source else "\nreadable := true\n",
        "stopping": "" if cel is not None and cel.stopping else _STOPPING,
    }


def kind_of(rule: AdmissionRule) -> str:
    """Return the kind of a rule's constraints."""
    return f"Trainyard{rule.id.title().replace('-', '')}"


def _template(rule: AdmissionRule, state: PolicyState, source: str) -> dict[str, Any]:
    moved = re.sub(r"^package trainyard\.rules\.\w+$", "package lib.rule", _moved(source), flags=re.M)
    kind, entry = kind_of(rule), entry_point(rule, state)
    libraries = [moved, *library(f"{moved}\n{entry}")]
    code = {"engine": "Rego", "source": {"version": "v1", "rego": entry, "libs": libraries}}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {"spec": {"names": {"kind": kind}, "validation": {"openAPIV3Schema": schema}}}
    return {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": {"name": kind.lower()},
        "spec": {"crd": crd, "targets": [{"target": TARGET, "code": [code]}]},
    }


def _constraint(rule: AdmissionRule, state: PolicyState, exempt: list[str]) -> dict[str, Any]:
    match: dict[str, Any] = {
        "kinds": [
            {"apiGroups": [group], "kinds": sorted({each.kind for each in rule.matches if each.group == group})}
            for group in sorted({each.group for each in rule.matches})
        ]
    }
    if rule.reach is not Reach.EVERYWHERE:
        match["excludedNamespaces"] = exempt
    if rule.reach is Reach.LABELLED:
        match["namespaceSelector"] = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}
    parameters = {**rule.parameter_values({}), "exemptNamespaces": exempt}
    return {
        "apiVersion": CONSTRAINTS,
        "kind": kind_of(rule),
        "metadata": {"name": rule.id.lower()},
        "spec": {"enforcementAction": _ACTIONS[state], "match": match, "parameters": parameters},
    }


def _operations(rule: AdmissionRule) -> dict[str, list[str]]:
    """Return the operations that are reviewed, by group, kind and subresource."""
    found: dict[str, set[str]] = {}
    for match in rule.matches:
        subresource = match.resource.partition("/")[2]
        found.setdefault(f"{match.group}/{match.kind}/{subresource}", set()).update(match.operations)
    return {key: sorted(operations) for key, operations in sorted(found.items())}


def _touching(rule: AdmissionRule) -> dict[str, list[str]]:
    """Return, by group and kind, the parts of which an update must change one; absent where it is reviewed anyway."""
    always = rule.cel is not None and rule.cel.unchanged
    return {
        f"{match.group}/{match.kind}": list(match.touching)
        for match in rule.matches
        if not always or match.touching != PARTS
    }


def _moved(source: str) -> str:
    for old, new in _MOVED:
        source = source.replace(old, new)
    return source


def _reading_reviews(source: str) -> str:
    for old, new in _REQUEST:
        if old not in source:
            raise ValueError(f"policies/lib/request.rego no longer says {old!r}: say here what Gatekeeper has instead")
        source = source.replace(old, new)
    return source
