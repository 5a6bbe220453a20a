"""The ledger of what tenants can write is complete, and its reasons are checked where they can be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.policy.shipped import POLICIES, RULES
from tests.support import ROOT
from tools.reference import surface_schemas
from tools.reference.kubernetes_fields import FILE, recorded_fields
from tools.reference.surface import reference
from tools.reference.surface_ledger import NAMED, SurfaceLedger, load_ledger
from tools.reference.surface_rbac import END, START, with_table
from trainyard.errors import TrainyardError
from trainyard.settings.versions import KUBERNETES_VERSION, supported_versions
from trainyard.upstream import module_cache

OPEN: Final = 0
"""Entries that no rule prevents, or only in part. This number may only fall."""

SHARED: Final = 10
"""Fields that may have one reason, where they are not a subtree."""

KEYS: Final = re.compile(r'"((?:[a-z0-9-]+\.)*(?:volcano\.sh|jobset\.sigs\.k8s\.io)/[A-Za-z0-9_-]+)"')
OF_NODES: Final = ("github.com/NVIDIA/nvidia-container-toolkit/",)
"""Modules of programs of the nodes, which this project neither builds nor installs."""

READERS: Final = (
    "volcano.sh/apis/pkg/apis",
    "volcano.sh/volcano/pkg/controllers",
    "volcano.sh/volcano/pkg/scheduler",
    "volcano.sh/volcano/pkg/webhooks",
    "sigs.k8s.io/jobset/api",
    "sigs.k8s.io/jobset/pkg",
)
"""Folders with the code of Volcano and JobSet that reads the objects of tenants."""

OF_OTHERS: Final = {
    *(f"alpha.jobset.sigs.k8s.io/{name}" for name in ("namespaced-job", "no-schedule")),
    *(f"volcano.sh/{name}" for name in ("gpu-memory", "gpu-number", "vdcu", "vmlu", "vgpu-cores", "vgpu-memory")),
    *(f"volcano.sh/{name}" for name in ("vgpu-memory-percentage", "vgpu-number")),
    *(f"volcano.sh/{name}" for name in ("gpu-unhealthy-ids", "node-vgpu-handshake", "node-vgpu-register")),
    *(f"volcano.sh/{name}" for name in ("oversubscription", "oversubscription-cpu", "oversubscription-memory")),
    *(f"volcano.sh/{name}" for name in ("nodegroup-name", "offline-job-evicting", "network-topology-source")),
    *(f"volcano.sh/{name}" for name in ("colocation-config", "colocation-config-name")),
    *(f"volcano.sh/{name}" for name in ("task-topology", "vgpu")),
    "batch.volcano.sh/v1alpha1",
    "node.volcano.sh/warmup",
    "jobset.sigs.k8s.io/jobset-controller",
}
"""Keys of nodes, prefixes of keys, resources (a container's limits), and names of versions and controllers."""


OWN_KEYS: Final = re.compile(r'"((?:trainyard\.dev|trainer\.kubeflow\.org)/[a-z][a-z0-9-]*)"')

OF_THE_PLATFORM: Final = {
    *(f"trainer.kubeflow.org/{name}" for name in ("resource-in-use", "trainjob-controller", "v1alpha1")),
    *(f"trainyard.dev/{name}" for name in ("fabric-node", "node-labels", "node-shape", "platform", "simulated-node")),
    *(f"trainyard.dev/{name}" for name in ("nodes-refreshed", "rule", "served-certificate", "since", "title")),
    *(f"trainyard.dev/{name}" for name in ("scheduler-configuration", "simulated", "simulated-job", "simulation")),
    *(f"trainyard.dev/{name}" for name in ("recorded", "takeover-record", "usage")),
    "trainyard.dev/v1alpha1",
}
"""A type of Secret, a field of recorded files, finalizers, names of versions and controllers, and keys of objects that
no tenant writes or that are simulated: nodes, HyperNodes, webhook configurations, policies, ConfigMaps of the record of
usage, and the objects of trainyard simulate."""


@pytest.fixture(scope="module")
def ledger() -> SurfaceLedger:
    return load_ledger()


def test_every_field_of_the_pinned_schemas_has_an_entry(ledger: SurfaceLedger) -> None:
    assert list(ledger.missing()) == [], "who acts on it, and what can it do to others? Add it to policies/surface"


def test_every_entry_has_a_field(ledger: SurfaceLedger) -> None:
    assert list(ledger.stray()) == []
    assert ledger.entries.keys() <= {*ledger.sources, *NAMED}


def test_the_rules_of_entries_exist(ledger: SurfaceLedger) -> None:
    ids = {rule.id for rule in RULES}
    assert [(name, entry.fields, rule) for name, entry in ledger.all() for rule in entry.rules if rule not in ids] == []


def test_a_reason_is_written_for_few_fields(ledger: SurfaceLedger) -> None:
    shared: Counter[str] = Counter()
    for _, entry in ledger.all():
        shared[entry.reason] += len(entry.fields) if entry.reason else 0
    assert {reason: count for reason, count in shared.items() if count > SHARED} == {}


def test_the_number_of_open_entries_only_falls(ledger: SurfaceLedger) -> None:
    assert sum(bool(entry.open) for _, entry in ledger.all()) == OPEN, (
        "lower OPEN with each entry that a rule evaluates"
    )


def test_a_key_has_one_entry(ledger: SurfaceLedger) -> None:
    for name in NAMED:
        named = Counter(path for entry in ledger.entries[name] for path in entry.fields)
        assert {path for path, count in named.items() if count > 1} == set()


def test_the_page_is_up_to_date(ledger: SurfaceLedger) -> None:
    page = ROOT / "docs/reference/surface.md"
    assert page.read_text() == reference(ledger), "run: python -m tools.reference.surface > docs/reference/surface.md"


def test_the_page_about_attacks_lists_what_only_rbac_protects(ledger: SurfaceLedger) -> None:
    page = (ROOT / "docs" / "bypass.md").read_text()
    assert with_table(page, ledger) == page, "run: python -m tools.reference.surface_rbac docs/bypass.md"
    assert (
        sum(bool(entry.rbac) for _, entry in ledger.all())
        == page.partition(START)[2].partition(END)[0].count("\n|") - 2
    )


def test_the_recorded_fields_are_those_of_the_pinned_kubernetes() -> None:
    assert f'"version": "v{KUBERNETES_VERSION}"' in FILE.read_text(), (
        "record them again: see tools/reference/kubernetes_fields.py"
    )


def test_the_ledger_holds_no_rules() -> None:
    assert not list((POLICIES / "surface").glob("*/*"))
    assert all(rule.family != "surface" for rule in RULES)


@pytest.mark.slow
@pytest.mark.parametrize(("type_name", "found"), [("PodSpec", "PodSpec.newField"), ("NFSVolumeSource", "count is")])
def test_a_new_field_of_kubernetes_requires_an_entry(
    monkeypatch: pytest.MonkeyPatch, type_name: str, found: str
) -> None:
    types = {name: dict(fields) for name, fields in recorded_fields().items()}
    types[type_name]["newField"] = ""
    monkeypatch.setattr(surface_schemas, "recorded_fields", lambda: types)
    ledger = load_ledger()
    newer = SurfaceLedger(ledger.sources, ledger.entries)
    assert any(found in each for each in (*newer.missing(), *newer.stray()))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"fields": ["a"], "by": "x"}, "exactly one of"),
        ({"fields": ["a"], "by": "x", "rbac": "r", "open": "o"}, "exactly one of"),
        ({"fields": ["a"], "by": "x", "node": "n", "accepted": "a"}, "exactly one of"),
        ({"fields": ["a"], "by": "x", "rbac": "r", "node": "n"}, "exactly one of"),
        ({"fields": ["a"], "by": "x", "rules": ["ABC-001"]}, "rules require effect"),
        ({"fields": ["a"], "by": "x", "harmless": "h"}, "harmless requires code"),
        ({"fields": ["a.**"], "by": "x", "rbac": "r"}, "requires count"),
    ],
)
def test_an_invalid_entry_is_an_error(tmp_path: Path, entry: dict[str, object], message: str) -> None:
    (tmp_path / "types.yaml").write_text("Pod: {kubernetes: Pod}\n")
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump({"Pod": [entry]}))
    with pytest.raises(TrainyardError) as caught:
        load_ledger(tmp_path)
    assert message in str(caught.value.findings[0])


def test_the_code_that_makes_an_entry_harmless_exists(ledger: SurfaceLedger) -> None:
    missing = []
    for name, entry in ledger.all():
        for path, _, symbol in (each.partition(" ") for each in entry.code):
            if path.startswith(OF_NODES):
                continue
            file = _source(path)
            if file and not (file.is_file() and re.search(rf"\b{symbol}\b", file.read_text())):
                missing.append((name, entry.fields, path, symbol))
    assert missing == []


def test_a_reason_in_code_that_no_module_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pinned module"):
        _source("example.com/other/pkg/file.go")
    assert _source("components/common/ownership.py") == ROOT / "components" / "common" / "ownership.py"


def test_the_documentation_names_the_configuration_of_the_nodes(ledger: SurfaceLedger) -> None:
    for name, entry in ledger.all():
        for page, anchor in re.findall(r"(docs/\w+\.md)#([\w-]+)", entry.node) if entry.node else ():
            headings = re.findall(r"(?m)^#+ (.*)$", (ROOT / page).read_text())
            assert anchor in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}, entry.node
        assert not entry.node or "docs/" in entry.node, (name, entry.fields)


def test_every_key_that_volcano_and_jobset_declare_has_an_entry(ledger: SurfaceLedger) -> None:
    known = {path for name in ("Annotations", "Labels") for entry in ledger.entries[name] for path in entry.fields}
    assert set(_declared()) - known - OF_OTHERS == set()


def test_every_key_of_the_project_has_an_entry(ledger: SurfaceLedger) -> None:
    known = {path for name in ("Annotations", "Labels") for entry in ledger.entries[name] for path in entry.fields}
    found = {key for file in (ROOT / "trainyard").rglob("*.py") for key in OWN_KEYS.findall(file.read_text())}
    assert found - known == OF_THE_PLATFORM, "who acts on it, and what can a tenant do with it?"


def _declared() -> Iterator[str]:
    for folder in filter(None, map(_source, READERS)):
        for file in folder.rglob("*.go"):
            if not file.name.endswith("_test.go") and not file.name.startswith("test_"):
                yield from KEYS.findall(file.read_text())


def _source(path: str) -> Path | None:
    """A file of this repository or of a pinned module; None where the module cache has no module of its group.

    Raises
    ------
    ValueError
        The path is in no module that this project pins.
    """
    if (ROOT / path.partition("/")[0]).is_dir():
        return ROOT / path
    for module, version in _modules().items():
        if path.startswith(f"{module}/"):
            folder = module_cache() / f"{module}@v{version}"
            return folder / path.removeprefix(f"{module}/") if folder.is_dir() else None
    group, name, rest = path.split("/", 2)
    folder = module_cache() / group / f"{name}@v0.{KUBERNETES_VERSION.partition('.')[2]}"
    if folder.is_dir():
        return folder / rest
    if group != "k8s.io" or (module_cache() / group / f"kubernetes@v{KUBERNETES_VERSION}").is_dir():
        raise ValueError(f"{path}: no pinned module has it")
    return None


def _modules() -> dict[str, str]:
    volcano = (ROOT / "toolchain" / "volcano" / "go.mod").read_text()
    return {
        "k8s.io/kubernetes": KUBERNETES_VERSION,
        "volcano.sh/volcano": supported_versions("volcano")[0],
        "volcano.sh/apis": volcano.partition("volcano.sh/apis v")[2].split()[0],
        "sigs.k8s.io/jobset": supported_versions("jobset")[0],
        "sigs.k8s.io/kueue": supported_versions("kueue")[0],
    }
