"""The objects of a release in full, compressed: with them a test starts a platform as the release left it.

What comes from upstream's manifests is not recorded, but taken from the present program.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.components.recording import PORTS, Recording

_UPSTREAM_COMPONENTS: Final = ("trainyard:jobset:JobSet", "trainyard:kueue:Kueue", "trainyard:volcano:Volcano")
_UPSTREAM_KINDS: Final = frozenset(
    {
        "ClusterRole",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "Role",
        "ValidatingWebhookConfiguration",
    }
)


def write_objects(release: str, recording: Recording, folder: Path) -> None:
    """Write every resource of a recording, in an order in which each follows those that it needs."""
    resources = []
    for each in recording.resources.values():
        upstream = _is_upstream(each.parent, each.inputs.get("kind"))
        resources.append(
            {
                "urn": each.urn,
                "type": each.type,
                "name": each.name,
                "parent": each.parent,
                "inputs": None if upstream else each.inputs,
                "dependencies": sorted(each.dependencies),
                "deleted_with": each.deleted_with,
            }
        )
    text = json.dumps(resources, sort_keys=True)
    (folder / f"{release}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


def read_objects(release: str, folder: Path, present: Recording, ports: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the resources of a release, for a cluster whose webhooks have the given ports.

    Parameters
    ----------
    present
        The present program with the same settings and with schemas: the source of upstream's objects.
    ports
        By program.
    """
    text = lzma.decompress((folder / f"{release}.json.xz").read_bytes()).decode()
    resources: list[dict[str, Any]] = json.loads(_at_ports(text, ports))
    of_present = json.loads(_at_ports(json.dumps({each.name: each.inputs for each in present.objects}), ports))
    return [each if each["inputs"] is not None else {**each, "inputs": of_present[each["name"]]} for each in resources]


def _is_upstream(parent: str, kind: str | None) -> bool:
    return kind in _UPSTREAM_KINDS and any(f"{component}::" in parent for component in _UPSTREAM_COMPONENTS)


def _at_ports(text: str, ports: Mapping[str, int]) -> str:
    for program, port in PORTS.items():
        if program in ports:
            text = text.replace(f"https://127.0.0.1:{port}/", f"https://127.0.0.1:{ports[program]}/")
    return text
