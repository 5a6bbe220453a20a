"""The bundle: what the policy server is given."""

import json
import tarfile
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.bundle import Bundle, build_bundle, bundle_files, package_name, verify_bundle
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules


def test_a_bundle_holds_every_rule_and_what_its_rule_file_says() -> None:
    bundle = build_bundle()
    catalog = json.loads(bundle.files["data.json"])["trainyard"]["catalog"]
    rules = load_rules()
    assert set(catalog) == {rule.id for rule in rules}
    for rule in rules:
        entry = catalog[rule.id]
        assert entry["state"] == rule.state
        assert [match["kind"] for match in entry["matches"]] == [match.kind for match in rule.matches]
        if rule.gate is EnforcementPoint.ADMISSION and rule.cel is not None:
            assert (entry["unchanged"], entry["stopping"]) == (rule.cel.unchanged, rule.cel.stopping)
            assert entry["deleting"] == rule.cel.deleting
        source = bundle.files[f"rules/{rule.id}-{rule.slug}.rego"].decode()
        assert f"package trainyard.rules.{package_name(rule.id)}\n" in source


@pytest.mark.parametrize(
    ("bound", "readable", "asked"),
    [
        ("everywhere", "none", {"GNG-002", "OBJ-001"}),
        ("everywhere", "all", {"GNG-002", "OBJ-001", "QUE-001", "TOP-001"}),
        ("tenants", "none", {"BND-004", "GNG-002", "GNG-006", "OBJ-001"}),
        ("tenants", "Platform", {"BND-004", "GNG-002", "GNG-006", "OBJ-001", "QUE-001", "TOP-001"}),
        ("tenants", "TenantPolicy", {"BND-004", "GNG-002", "GNG-006", "OBJ-001", "QUE-002", "TEN-003"}),
        (
            "tenants and labelled",
            "all",
            {
                "BND-001",
                "BND-002",
                "BND-004",
                "GNG-002",
                "GNG-006",
                "GNG-007",
                "OBJ-001",
                "QUE-001",
                "QUE-002",
                "TEN-003",
                "TEN-007",
                "TEN-013",
                "TEN-020",
                "TOP-001",
            },
        ),
    ],
)
def test_the_index_holds_the_rules_by_whom_they_bind_and_what_they_read(
    bound: str, readable: str, asked: set[str]
) -> None:
    index = json.loads(build_bundle().files["data.json"])["trainyard"]["index"]
    found = index["scheduling.volcano.sh"]["PodGroup"][""]["CREATE"][bound][readable]
    assert found == {rule: package_name(rule) for rule in asked}
    pods = index[""]["Pod"][""]["CREATE"][bound][readable]
    assert ("ESC-001" in pods) is (bound == "tenants and labelled")


def test_the_sources_of_a_policy_are_those_of_the_api() -> None:
    sources = json.loads(build_bundle().files["data.json"])["trainyard"]["sources"]
    assert sources["mlPolicy"][:5] == ["torch", "mpi", "jax", "xgboost", "flux"]
    assert {"volcano", "coscheduling", "kai"} == set(sources["podGroupPolicy"])


def test_equal_bundles_are_equal_to_the_byte(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.tar.gz", "b.tar.gz")]
    for path in paths:
        build_bundle().write(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with tarfile.open(paths[0]) as archive:
        manifest = json.load(archive.extractfile(".manifest"))  # type: ignore[arg-type]
    assert manifest["revision"] == build_bundle().revision
    assert manifest["roots"] == ["trainyard"]


def test_a_rule_without_rego_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "own" / "OWN-001-something"
    folder.mkdir(parents=True)
    shipped = Path(__file__).parents[2] / "policies" / "labels" / "LBL-002-framework" / "rule.yaml"
    (folder / "rule.yaml").write_text(shipped.read_text().replace("LBL-002", "OWN-001"))
    with pytest.raises(TrainyardError, match="Rule OWN-001 has no Rego") as caught:
        build_bundle(tmp_path)
    assert "package trainyard.rules.own_001" in caught.value.fix


def test_an_archive_is_accepted_by_its_content_only(tmp_path: Path) -> None:
    bundle, archive = bundle_files({"a.rego": b"package a"}, ["a"]), tmp_path / "rules.tar.gz"
    bundle.write(archive)
    verify_bundle(archive, bundle.revision)
    other = bundle_files({"a.rego": b"package b"}, ["a"])
    with pytest.raises(TrainyardError, match="has rules of another revision than"):
        verify_bundle(archive, other.revision)
    claims = {**other.files, ".manifest": bundle.files[".manifest"]}
    Bundle(claims, bundle.revision).write(archive)
    with pytest.raises(TrainyardError, match="has rules of another revision than"):
        verify_bundle(archive, bundle.revision)
    archive.write_bytes(b"no archive")
    with pytest.raises(TrainyardError, match="cannot be read"):
        verify_bundle(archive, bundle.revision)
