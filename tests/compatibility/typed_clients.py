"""Clients with upstream's Go types, and the table of these types: ``python -m tests.compatibility.typed_clients``.

The command writes ``trainyard/api/go_types.json`` again; a test compares the file with the modules.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from components.jobset import custom_resource_definition
from tests.support import ROOT
from trainyard.api.crds import build
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.go import find_go

Body = dict[str, Any]
Table = dict[str, dict[str, str]]

SOURCES = Path(__file__).with_name("typed_client")
TABLE = ROOT / "trainyard" / "api" / "go_types.json"
MODULES = {"2.1": "v2.1.mod", "2.3": "go.mod"}
"""Module file of each release; that of v2.1 has the versions of Kueue 0.16.2."""
_ROOTS = {"TrainJob": "trainer.TrainJobSpec", "TrainingRuntime": "trainer.TrainingRuntimeSpec"}
_V2_0 = ("serviceAccountName", "nodeSelector", "tolerations", "volumes", "initContainers", "containers")
_BOUNDS = ("default", "minLength", "minItems", "minProperties", "minimum", "pattern", "enum")
_RULES = "x-kubernetes-validations"


def program(release: str) -> Path:
    """Return the client of a release, built if its sources changed."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCES.iterdir()))).hexdigest()[:16]
    found = cache_home() / "compatibility" / f"typed_client-{release}-{digest}"
    if not found.is_file():
        found.parent.mkdir(parents=True, exist_ok=True)
        find_go().run(SOURCES, "build", f"-modfile={MODULES[release]}", "-o", str(found), ".")
    return found


def updates(release: str, bodies: Sequence[Body]) -> list[Body]:
    """Return objects as the client of a release sends them in an update: decoded and encoded."""
    lines = "".join(f"{json.dumps(body)}\n" for body in bodies)
    return [json.loads(line) for line in _run(release, "update", lines).splitlines()]


def types(release: str) -> Table:
    """Return the fields of the types of a release, by name of the struct."""
    found: Table = json.loads(_run(release, "types"))
    return found


def table() -> Table:
    """Return the fields of all releases; where types differ, those of the latest."""
    old, new = types("2.1"), types("2.3")
    result: Table = {}
    for struct in sorted({*old, *new}):
        before, after = old.get(struct, {}), new.get(struct, {})
        # A struct that a release lacks is reached by its clients through no field.
        one = struct not in old or struct not in new
        result[struct] = {
            name: after.get(name, before.get(name, ""))
            + ("" if one or (name in before and name in after) else " 2.3" if name in after else " 2.1")
            for name in sorted({*before, *after})
        }
    template = result["trainer.PodTemplateSpecOverride"]
    result["trainer.PodSpecOverride"] = {
        "targetJobs": result["trainer.PodTemplateOverride"]["targetJobs"],
        **{name: template[name] for name in (*_V2_0, "schedulingGates")},
    }
    result["trainer.TrainJobSpec"]["podSpecOverrides"] = "[]trainer.PodSpecOverride? 2.0"
    for path in set(_kept(result)):
        struct, _, name = path.rpartition(".")
        kind, blank, releases = result[struct][name].partition(" ")
        result[struct][name] = f"{kind}!{blank}{releases}"
    return result


def as_text(content: Table) -> str:
    """Return the content of the file."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def _run(release: str, verb: str, lines: str = "") -> str:
    done = subprocess.run([program(release), verb], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _kept(content: Table) -> Iterator[str]:
    """Yield fields whose empty value the schema treats in another way than their absence."""
    for definition in build(custom_resource_definition("0.12.0")):
        root = _ROOTS.get(definition["spec"]["names"]["kind"])
        if root is not None:
            schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            yield from _kept_below(content, root, schema)


def _kept_below(content: Table, kind: str, schema: Body) -> Iterator[str]:
    kind = kind.partition(" ")[0].rstrip("?").lstrip("*")
    if kind.startswith("[]"):
        yield from _kept_below(content, kind[2:], schema.get("items", {}))
    elif kind.startswith("{}"):
        yield from _kept_below(content, kind[2:], schema.get("additionalProperties", {}))
    for name, notation in content.get(kind, {}).items():
        inner = schema.get("properties", {}).get(name)
        if inner is None:
            continue
        bounded = name in schema.get("required", ()) or any(inner.get(bound) not in (None, 0) for bound in _BOUNDS)
        bounded = bounded or "default" in inner or any("oldSelf" not in rule["rule"] for rule in inner.get(_RULES, ()))
        plain = not notation.startswith(("*", "quantity"))
        if "?" in notation and plain and bounded and inner.get("type") != "object":
            yield f"{kind}.{name}"
        yield from _kept_below(content, notation, inner)


if __name__ == "__main__":
    TABLE.write_text(as_text(table()), encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)}: {len(table())} types")
