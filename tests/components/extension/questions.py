"""Print what the program declares, as JSON; the test runs this where there is one component more."""

from __future__ import annotations

import asyncio
import json

import pytest
import yaml

from components.registry import cluster_kinds, declarations, image_repositories, installation_order
from components.stack import validate_stack
from tests.components.recording import record, service_access, stack_config
from tools.reference.settings import reference
from trainyard.errors import TrainyardError
from trainyard.local.cluster.inspection import host_processes
from trainyard.local.cluster.ports import PORT_NAMES, WEBHOOK_PROGRAMS
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.settings.stack_loader import parse_stack
from trainyard.settings.versions import supported_versions


def main() -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())
    changes = {
        "images": {"cache": {"repository": "mirror.example.com/cache"}},
        "cache": {"shards": 3},
        "pods": {"nodeSelector": {"pool": "system"}, "programs": {"cache": {"resources": {"limits": {"cpu": "2"}}}}},
    }
    config = stack_config(cluster={"provider": "existing", "context": "prod"}, **changes)
    settings = parse_stack(config, source="test")
    with pytest.MonkeyPatch.context() as patch:
        recording = record(config, patch, access=service_access(), stack="prod", policies=True)
    bodies = [dict(each.inputs) for each in recording.objects]
    named = {(body["kind"], body["metadata"]["name"]): body for body in bodies}
    workload = named["Deployment", "cache"]["spec"]["template"]["spec"]
    tenant = next(each for each in recording.of("TenantPolicy"))
    manager = next(each for each in recording.of("Deployment") if each.inputs["metadata"]["name"] == "cache")
    configuration = named["ConfigMap", "trainyard-controller-config"]["data"]["config.yaml"]
    existing = {
        "trainer": {"install": "existing"},
        "volcano": {"install": "existing"},
        "jobset": {"install": "existing"},
        "console": {"install": False},
    }
    try:
        validate_stack(parse_stack({**config, **existing}, source="test"))
        refused = []
    except TrainyardError as error:
        refused = [finding.path for finding in error.findings]
    answers = {
        "refused": refused,
        "types": sorted({each.type for each in recording.resources.values()}),
        "shelf": named["Shelf", "shelf"]["spec"],
        "image": workload["containers"][0]["image"],
        "node-selector": workload["nodeSelector"],
        "limits": workload["containers"][0]["resources"]["limits"],
        "certificates": yaml.safe_load(configuration)["certificates"],
        "home": sorted(body["kind"] for body in bodies if body["metadata"].get("namespace") == "cache-system"),
        "before": sorted(recording.before(manager)),
        "before-tenants": sorted(recording.before(tenant)),
        "order": installation_order(declarations()),
        "kinds": list(cluster_kinds().values()),
        "images": list(image_repositories()),
        "manifests": {name: list(supported_versions(name)) for name, each in declarations().items() if each.manifests},
        "namespaces": list(settings.platform_namespaces),
        "exempt": list(settings.exempt_namespaces),
        "programs": list(HOST_PROGRAMS),
        "ports": [use for use in PORT_NAMES if "cache" in use][:3],
        "webhook-programs": list(WEBHOOK_PROGRAMS),
        "processes": [name for name, _ in host_processes() if "cache" in name],
        "page": reference(),
    }
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
