"""What a newer Kubeflow Trainer changed: fields, defaults, admission and rendering.

python -m tests.compatibility.upstream v2.4.0 [--since v2.3.0]

Both versions are read from the Go module proxy. The report names every field of the CRDs, rule, webhook, message,
constant and function that differs; docs/compatibility.md#follow-a-new-release says what to do with it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard.errors import TrainyardError
from trainyard.local.cluster.go import find_go

MODULE = "github.com/kubeflow/trainer/v2"
PINNED = "v2.3.0"
"""The version that the comparison runs."""
CRDS = "manifests/base/crds"
WEBHOOKS = "manifests/base/webhook/manifests.yaml"
ADMISSION = ("pkg/webhooks",)
RENDERING = ("pkg/runtime", "pkg/apply", "pkg/util", "pkg/constants", "pkg/controller")
DEPENDENCIES = ("sigs.k8s.io/jobset", "k8s.io/api", "volcano.sh/apis", "sigs.k8s.io/scheduler-plugins")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CHILDREN = ("properties", "items", "additionalProperties", "description")
_RULES = "x-kubernetes-validations"
_FUNCTION = re.compile(r"^func (?:\(\w* ?\*?(?P<type>[\w.]+)[^)]*\) )?(?P<name>\w+).*?^}", re.MULTILINE | re.DOTALL)
_CONSTANT = re.compile(r"^\s+(?P<name>[A-Z]\w*)\s*(?:[\w.]+\s*)?=\s*(?P<value>[^\n]+)$", re.MULTILINE)
_MESSAGE = re.compile(
    r"(?:field\.(?:Invalid|Forbidden|Required|Duplicate|NotSupported)|fmt\.(?:Errorf|Sprintf)|errors\.New)\("
    r"[^\n\"]*(?P<text>\"(?:[^\"\\]|\\.)*\")"
)
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)

Facts = dict[str, str]
"""What can differ, by its name."""


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Parameters
    ----------
    title
        Heading.
    read
        Returns the facts of a version's sources.
    shown
        Whether both values of a changed fact are printed.
    """

    title: str
    read: Callable[[Path], Facts]
    shown: bool = True


def fields(folder: Path) -> Facts:
    """Return type and limits of every field of the CRDs, without JobSet's template and pod fields."""
    found: Facts = {}
    for kind, schema in _schemas(folder):
        found |= {f"{kind} {path}": _limits(node) for path, node in _nodes(schema) if not _is_embedded(path)}
    return found


def embedded(folder: Path) -> Facts:
    """Return type and limits of the fields that the CRDs embed from JobSet."""
    for kind, schema in _schemas(folder):
        if kind == "trainingruntimes":
            return {path: _limits(node) for path, node in _nodes(schema) if _is_embedded(path)}
    return {}


def defaults(folder: Path) -> Facts:
    """Return the defaults of the CRDs outside the embedded parts."""
    return {
        f"{kind} {path}": json.dumps(node["default"])
        for kind, schema in _schemas(folder)
        for path, node in _nodes(schema)
        if "default" in node and not _is_embedded(path)
    }


def rules(folder: Path) -> Facts:
    """Return the CEL rules of the CRDs outside the embedded parts."""
    return {
        f"{kind} {path}: {rule['rule']}": rule.get("message", "")
        for kind, schema in _schemas(folder)
        for path, node in _nodes(schema)
        for rule in node.get(_RULES, ())
        if not _is_embedded(path)
    }


def webhooks(folder: Path) -> Facts:
    """Return the webhooks with everything but their clients, and the patches of their installation."""
    found: Facts = {}
    for body in yaml.load_all((folder / WEBHOOKS).read_text(), Loader=_LOADER):
        for webhook in (body or {}).get("webhooks") or ():
            rest = {key: value for key, value in webhook.items() if key not in ("name", "clientConfig")}
            found[f"{body['kind']} {webhook['name']}"] = json.dumps(rest, sort_keys=True)
    for file in sorted((folder / WEBHOOKS).parent.glob("patch_*.yaml")):
        for step in yaml.load(file.read_text(), Loader=_LOADER):
            found[f"{file.name} {step['path']}"] = json.dumps(step.get("value"), sort_keys=True)
    return found


def messages(folder: Path) -> Facts:
    """Return the messages of admission, which name its rules."""
    return {
        f"{name}: {match['text']}": ""
        for name, text in _sources(folder, (*ADMISSION, *RENDERING))
        for match in _MESSAGE.finditer(text)
    }


def constants(folder: Path) -> Facts:
    """Return the constants that name objects, variables and images."""
    return {
        match["name"]: match["value"]
        for _, text in _sources(folder, ("pkg/constants",))
        for match in _CONSTANT.finditer(text)
    }


def functions(*folders: str) -> Callable[[Path], Facts]:
    """Return a reader of the functions below some folders, without comments."""

    def read(folder: Path) -> Facts:
        found = {}
        for name, text in _sources(folder, folders):
            for match in _FUNCTION.finditer(text):
                owner = f"{match['type']}." if match["type"] else ""
                found[f"{name} {owner}{match['name']}"] = " ".join(_COMMENT.sub("", match[0]).split())
        return found

    return read


def dependencies(folder: Path) -> Facts:
    """Return the versions of the modules whose types the API embeds."""
    lines = (line.split() for line in (folder / "go.mod").read_text().splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1 and words[0] in DEPENDENCIES}


SECTIONS = (
    Section("Modules", dependencies),
    Section("Fields", fields),
    Section("Fields embedded from JobSet", embedded),
    Section("Defaults", defaults),
    Section("Admission: rules of the schemas", rules),
    Section("Admission: webhooks", webhooks),
    Section("Admission: messages", messages),
    Section("Admission: functions", functions(*ADMISSION), shown=False),
    Section("Rendering: constants", constants),
    Section("Rendering: functions", functions(*RENDERING), shown=False),
)


def report(old: Path, new: Path) -> Iterator[str]:
    """Yield the lines of the report.

    Parameters
    ----------
    old, new
        Sources of both versions.
    """
    for section in SECTIONS:
        before, after = section.read(old), section.read(new)
        lines = list(_changes(before, after, shown=section.shown))
        yield f"## {section.title}: {len(lines) or 'no'} change{'' if len(lines) == 1 else 's'}"
        yield from lines
        yield ""


def _changes(before: Mapping[str, str], after: Mapping[str, str], *, shown: bool) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"+ {name}{_value(after[name]) if shown else ''}"
        elif name not in after:
            yield f"- {name}"
        elif before[name] != after[name]:
            yield f"~ {name}{_value(before[name])} ->{_value(after[name])[1:]}" if shown else f"~ {name}"


def _value(text: str) -> str:
    return f": {text}" if text else ""


def _schemas(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for file in sorted((folder / CRDS).glob("trainer.kubeflow.org_*.yaml")):
        body = yaml.load(file.read_text(), Loader=_LOADER)
        yield body["spec"]["names"]["plural"], body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _nodes(inner, f"{path}.{name}" if path else name)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _nodes(schema[key], path + mark)


def _limits(schema: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in schema.items() if key not in (*_CHILDREN, "default", _RULES)}
    return json.dumps(kept, sort_keys=True)


def _is_embedded(path: str) -> bool:
    return path.startswith("spec.template.spec.") or bool(re.search(r"\.template\.spec\.template\.spec\..*[.\[]", path))


def _sources(folder: Path, below: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in below:
        for file in sorted((folder / name).rglob("*.go")):
            relative = file.relative_to(folder).as_posix()
            if not file.name.endswith("_test.go") and "/testing/" not in relative:
                yield relative, file.read_text()


def fetched(version: str) -> Path:
    """Return the sources of a version, from the Go module proxy.

    Raises
    ------
    TrainyardError
        The version does not exist, or the proxy does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "go.mod").write_text("module compare\n")
        try:
            text = find_go().run(Path(folder), "mod", "download", "-json", f"{MODULE}@{version}")
        except (TrainyardError, subprocess.CalledProcessError) as error:
            raise TrainyardError(
                f"{MODULE}@{version}: {error}", fix="name a version of the module, like v2.4.0"
            ) from error
    return Path(json.loads(text)["Dir"])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="version of the Go module, like v2.4.0")
    parser.add_argument("--since", default=PINNED, help=f"version to compare with; default: {PINNED}")
    arguments = parser.parse_args()
    try:
        old, new = fetched(arguments.since), fetched(arguments.version)
    except TrainyardError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"# Kubeflow Trainer {arguments.since} -> {arguments.version}\n")
    print("\n".join(report(old, new)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
