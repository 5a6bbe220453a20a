"""Checks of files that declare a fabric: settings, HyperNode manifests, and nodes to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.checks.finding import Finding, Severity
from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load_all
from trainyard.scheduling.topology.fabric_checks import fabric_findings
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.hypernode_checks import check_hyper_nodes
from trainyard.scheduling.topology.hypernode_manifests import FabricManifests, is_manifest, read_manifests
from trainyard.scheduling.topology.sources.description import SOURCE, fabric_values
from trainyard.settings.fabric import FabricSettings


def check_texts(texts: Sequence[tuple[str, str]]) -> list[Finding]:
    """Find all errors and warnings of the fabrics and HyperNodes in texts.

    Manifests of all texts are evaluated as one cluster. Their nodes are also compared with the settings.

    Parameters
    ----------
    texts
        Name and content of each file.

    Raises
    ------
    TrainyardError
        A text cannot be parsed, or none of them contains a fabric.
    """
    fabrics: list[tuple[str, FabricSettings]] = []
    documents: list[tuple[str, object]] = []
    for name, text in texts:
        found = list(load_all(text, name, fix="correct it"))
        if len(found) == 1 and not is_manifest(found[0]) and fabric_values(found[0]) is not None:
            fabrics.append((name, _fabric(name, text)))
        else:
            documents += [(name, document) for document in found]
    manifests = read_manifests(documents)
    if not fabrics and not manifests.hyper_nodes and not manifests.findings:
        raise TrainyardError(
            f"Neither a fabric nor a HyperNode in {', '.join(name for name, _ in texts)}",
            fix="use stack settings or HyperNode manifests; `trainyard topology import` reads other descriptions",
        )
    findings = [finding for name, fabric in fabrics for finding in fabric_findings(fabric, file=name)]
    if manifests.nodes is not None:  # the nodes decide
        findings = [finding for finding in findings if finding.rule != "fabric-selector-unproved"]
    if fabrics and not any(finding.severity is Severity.ERROR for finding in findings):
        compiled = [(name, body) for name, fabric in fabrics for body in compile_fabric(fabric).hyper_nodes]
        if manifests.nodes is not None or len(fabrics) > 1 or manifests.hyper_nodes:
            own = read_manifests(compiled)
            manifests = FabricManifests((*own.hyper_nodes, *manifests.hyper_nodes), manifests.nodes, manifests.findings)
    return [*findings, *check_hyper_nodes(manifests)]


def _fabric(name: str, text: str) -> FabricSettings:
    try:
        return SOURCE.read(text).settings
    except TrainyardError as error:
        raise TrainyardError(f"{name}: {error.message}", fix=error.fix, findings=error.findings) from error
