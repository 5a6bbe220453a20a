"""PolicyReports of an audit's findings, for dashboards of Kubernetes policies."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.printable_text import printable
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource
from trainyard.policy.check.report_kinds import API_VERSION, CLUSTERED, GROUP, NAMESPACED, VERSION
from trainyard.policy.rules.admission_rule import AdmissionRule

_NAMESPACED = Resource(GROUP, VERSION, NAMESPACED[1], NAMESPACED[0])
_CLUSTERED = Resource(GROUP, VERSION, CLUSTERED[1], CLUSTERED[0], namespaced=False)
_LABELS: Final = {"app.kubernetes.io/managed-by": "trainyard"}
_SELECTOR = "app.kubernetes.io/managed-by=trainyard"
_SOURCE: Final = "trainyard"
_MOST: Final = 500
"""Findings per object; well below the size limit of the API server."""
_INSTALL: Final = (
    "set policies.reports in the stack's settings, install the CRDs of "
    "https://github.com/kubernetes-sigs/wg-policy-prototypes (policy-report/crd/v1alpha2), or omit --report"
)


def policy_reports(
    report: Report, rules: Iterable[AdmissionRule], namespaces: Iterable[str], now: datetime.datetime
) -> list[dict[str, Any]]:
    """Return the reports: one or more per namespace, and those of cluster-scoped objects.

    Parameters
    ----------
    report
        Report of an audit.
    rules
        The catalog, for categories.
    namespaces
        All namespaces: those without findings get an empty report, which overwrites an older one.
    now
        Time of the audit.
    """
    families = {rule.id: rule.family for rule in rules}
    stamp = {"seconds": int(now.timestamp()), "nanos": 0}
    by_namespace: dict[str, list[dict[str, Any]]] = {name: [] for name in ("", *sorted(namespaces))}
    for result in report.findings:
        resource = _resource(result)
        by_namespace.setdefault(resource.get("namespace", ""), []).append(_entry(result, resource, families, stamp))
    passed = Counter(_named(name).get("namespace", "") for _, name in _fine(report))
    return [
        body
        for namespace, entries in by_namespace.items()
        for body in _bodies(namespace, entries, passed.get(namespace, 0))
    ]


async def write_reports(client: Client, bodies: Sequence[Mapping[str, Any]]) -> int:
    """Write reports to a cluster, delete obsolete ones, and return their number.

    Raises
    ------
    TrainyardError
        The cluster does not serve the kind, or rejects a write.
    """
    try:
        await client.request("GET", f"/apis/{API_VERSION}", resource=_NAMESPACED)
    except ApiError as error:
        if error.not_found:
            raise TrainyardError(f"The cluster does not serve {API_VERSION}", fix=_INSTALL) from error
        raise _unwritten(error) from error
    wanted = set()
    try:
        for body in bodies:
            resource = _NAMESPACED if body["kind"] == _NAMESPACED.kind else _CLUSTERED
            await client.apply(resource, body, field_manager="trainyard-check")
            wanted.add((resource.kind, body["metadata"].get("namespace"), body["metadata"]["name"]))
        for resource in (_NAMESPACED, _CLUSTERED):
            for old in await client.list(resource, label_selector=_SELECTOR):
                namespace, name = old["metadata"].get("namespace"), old["metadata"]["name"]
                if (resource.kind, namespace, name) not in wanted:
                    await client.delete(resource, name, namespace=namespace)
    except (ApiError, TransportError) as error:
        raise _unwritten(error) from error
    return len(wanted)


def _unwritten(error: Exception) -> TrainyardError:
    return TrainyardError(f"The reports cannot be written: {error}", fix="request permission to write policyreports")


def _bodies(namespace: str, entries: Sequence[dict[str, Any]], passed: int) -> Iterator[dict[str, Any]]:
    for number, start in enumerate(range(0, len(entries) or 1, _MOST)):
        part = entries[start : start + _MOST]
        results = Counter(entry["result"] for entry in part)
        metadata: dict[str, Any] = {"name": _SOURCE + (f"-{number + 1}" if number else ""), "labels": dict(_LABELS)}
        if namespace:
            metadata["namespace"] = namespace
        yield {
            "apiVersion": API_VERSION,
            "kind": (_NAMESPACED if namespace else _CLUSTERED).kind,
            "metadata": metadata,
            "summary": {
                "pass": 0 if number else passed,
                "fail": results["fail"],
                "warn": results["warn"],
                "error": 0,
                "skip": 0,
            },
            "results": part,
        }


def _entry(
    result: Finding, resource: Mapping[str, str], families: Mapping[str, str], stamp: Mapping[str, int]
) -> dict[str, Any]:
    failed = result.severity is Severity.ERROR
    return {
        "source": _SOURCE,
        "policy": result.rule or "manifest",
        "rule": result.rule or "manifest",
        "category": families.get(result.rule or "", "manifest"),
        "severity": "high" if failed else "medium",
        "result": "fail" if failed else "warn",
        "scored": True,
        "timestamp": dict(stamp),
        "resources": [dict(resource)],
        "message": printable(f"{result.path}: {result.message}" if result.path else result.message),
        "properties": {"path": result.path, "fix": result.fix},
    }


def _fine(report: Report) -> Iterator[tuple[str, str]]:
    faulty = {(result.file, result.object) for result in report.findings}
    return (entry for entry in report.checked if entry not in faulty)


def _resource(result: Finding) -> dict[str, str]:
    return _named(result.object)


def _named(name: str) -> dict[str, str]:
    kind, _, rest = name.partition(" ")
    namespace, slash, inner = rest.rpartition("/")
    return {"kind": kind, "name": inner, **({"namespace": namespace} if slash else {})}
