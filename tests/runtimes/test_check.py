"""The check of a catalog: files, releases, history, and a job on every version, reviewed by every rule."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.policy.decisions import Decisions
from tests.runtimes.conftest import SHIPPED
from tests.runtimes.test_transitions import git
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder
from trainyard.policy.check.runner import RuleSetSession
from trainyard.policy.check.runtime_catalog import CheckScope, check_runtimes, require_valid
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.review import AdmissionContext, DecisionTimeoutError, DecisionUnavailableError
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.platform import PolicySettings

NOW = datetime.datetime(2027, 8, 1, tzinfo=datetime.UTC)
RULES = load_rules()


def rule_set() -> RuleSetSession:
    return RuleSetSession(RULES, AdmissionContext(PolicySettings(), (), NOW), Future(), None)


def checked(*folders: CatalogFolder, **others: Any) -> Report:
    return check_runtimes(rule_set(), CheckScope(folders, **others), Decisions())


def lines(report: Report) -> list[str]:
    return [f"{each.severity} {Path(each.file).name} {each.path}: {each.message}" for each in report.findings]


def test_the_shipped_catalog_has_no_finding_and_a_job_for_each_version() -> None:
    decisions = Decisions()
    report = check_runtimes(rule_set(), CheckScope([read_folder(SHIPPED)]), decisions)
    assert lines(report) == []
    names = {name for _, name in report.checked}
    assert {"ClusterTrainingRuntime plain-1.0", "TrainJob on plain-1.0"} <= names
    assert len(names) == 2 * len(list(SHIPPED.glob("*/*.yaml")))
    kinds = [name.split()[0] for name in decisions.names()]
    assert kinds.count("JobSet") == len(names) // 2


def test_a_changed_release_a_stale_date_and_a_mistake_are_found(catalog: CatalogFolder) -> None:
    changed = catalog.texts["mine/1.1.yaml"].replace("numNodes: 1", "numNodes: 2")
    draft = catalog.texts["mine/1.2.yaml"].replace(
        "image:", 'command: ["python train.py"]\n                      image:'
    )
    report = checked(catalog.with_texts({"mine/1.1.yaml": changed, "mine/1.2.yaml": draft}))
    found = "\n".join(lines(report))
    assert "error 1.1.yaml metadata.annotations[trainyard.dev/released]: records" in found
    assert "warning index.yaml runtimes.mine.versions.1.0: was guaranteed until 2027-06-30, which has passed" in found
    assert "containers[0].command[0]: is a program name with spaces, 'python train.py'" in found
    (error,) = report.errors
    assert error.line == catalog.texts["mine/1.1.yaml"].splitlines().index("  annotations:") + 2


def test_a_deprecated_version_is_no_finding_for_its_owner(catalog: CatalogFolder) -> None:
    book = RuleSetSession(RULES, AdmissionContext(PolicySettings(), (), NOW.replace(month=3)), Future(), None)
    assert lines(check_runtimes(book, CheckScope([catalog]), Decisions())) == []


def test_a_job_that_cannot_be_rendered_is_found(catalog: CatalogFolder) -> None:
    body = yaml.safe_load(catalog.texts["mine/1.2.yaml"])
    body["spec"]["template"]["spec"]["volumeClaimPolicies"] = [{"templates": "x"}]
    report = checked(catalog.with_texts({"mine/1.2.yaml": yaml.safe_dump(body)}))
    assert any(each.object == "TrainJob on mine-1.2" for each in report.errors)
    with pytest.raises(TrainyardError, match="mine cannot be released"):
        require_valid(rule_set(), catalog.with_texts({"mine/1.2.yaml": yaml.safe_dump(body)}), "mine", Decisions())


def test_violations_are_reported_with_the_version(catalog: CatalogFolder) -> None:
    body = yaml.safe_load(catalog.texts["mine/1.2.yaml"])
    body["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "foreign"}}
    report = checked(catalog.with_texts({"mine/1.2.yaml": yaml.safe_dump(body)}))
    objects = {each.object for each in report.errors if each.rule == "QUE-002"}
    assert "ClusterTrainingRuntime mine-1.2" in objects
    assert any("from TrainJob on mine-1.2" in each for each in objects)


def test_only_the_named_runtimes_are_reviewed(catalog: CatalogFolder) -> None:
    broken = catalog.with_texts({"mine/1.1.yaml": "a: b\n"})
    assert checked(broken, read_folder(SHIPPED), names=["plain"]).findings == ()
    assert checked(broken, read_folder(SHIPPED), names=["mine"]).errors
    with pytest.raises(TrainyardError, match="Runtime 'nobody' does not exist"):
        checked(catalog, names=["nobody"])


def test_an_alias_of_a_draft_is_an_error(catalog: CatalogFolder) -> None:
    index = catalog.texts["index.yaml"].replace('alias: "1.1"', 'alias: "1.2"')
    assert "error index.yaml runtimes.mine.alias: refers to the draft 1.2, which may still change" in lines(
        checked(catalog.with_texts({"index.yaml": index}))
    )


def test_images_of_the_lock_that_nothing_names_are_reported(catalog: CatalogFolder) -> None:
    digest = "sha256:" + "0" * 64
    lock = f"images:\n  gone/gone:1: {digest}\n"
    report = checked(catalog.with_texts({"images.lock": lock}))
    assert "warning images.lock images[gone/gone:1]: no runtime uses this image" in lines(report)
    assert any("1 of 1 images have no digest" in note for note in report.notes)
    broken = checked(catalog.with_texts({"images.lock": "images: {a: b}"}))
    assert "error images.lock images[a]: 'b' is not a valid digest" in lines(broken)


def test_a_change_is_compared_with_a_revision(catalog: CatalogFolder, tmp_path: Path) -> None:
    for command in (["init", "-qb", "main"], ["add", "."], ["commit", "-qm", "one"]):
        git(tmp_path, *command)
    assert checked(catalog, against="main").errors == ()
    index = catalog.texts["index.yaml"].replace("removeAfter: 2027-06-30", "removeAfter: 2027-06-01")
    report = checked(catalog.with_texts({"index.yaml": index}), against="main")
    assert [each.message for each in report.errors] == ["is 2027-06-01, but the version is guaranteed until 2027-06-30"]


def test_a_rule_that_does_not_end_is_named(catalog: CatalogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    async def decide_all(_: OpaClient, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        raise DecisionTimeoutError if documents["only"] in (None, ["BND-004"]) else DecisionUnavailableError("")

    monkeypatch.setattr(OpaClient, "decide_all", decide_all)
    session = rule_set()
    session.address.set_result(OpaAddress())
    with pytest.raises(DecisionUnavailableError, match="the evaluation of rule BND-004 does not end"):
        check_runtimes(session, CheckScope([catalog]))


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"template": {"spec": {"replicatedJobs": [1, {"template": 2}]}}}},
        {"spec": {"template": {"spec": {"replicatedJobs": "x"}}}},
        {"spec": {"template": []}},
        {"spec": []},
        {"metadata": {"labels": 1}},
        {"spec": {None: 2}},
        {"spec": {"mlPolicy": 7}},
        {"spec": {"mlPolicy": {"numNodes": "x"}}},
    ],
)
def test_a_file_of_any_shape_is_a_finding_and_no_traceback(catalog: CatalogFolder, body: dict[str, Any]) -> None:
    document = {**yaml.safe_load(catalog.texts["mine/1.2.yaml"])}
    for key, value in body.items():
        document[key] = {**document[key], **value} if isinstance(value, dict) else value
    report = checked(catalog.with_texts({"mine/1.2.yaml": yaml.safe_dump(document)}))
    assert any(Path(each.file).name == "1.2.yaml" for each in report.errors), lines(report)
