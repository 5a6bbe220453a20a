"""Runtimes in Python are the same runtimes: checked, locked, installed and reviewed like those of a folder."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.conftest import SHIPPED
from trainyard.api.runtime import RuntimeSpec
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.authoring import AuthoredVersion, Release, author, read_authored
from trainyard.jobs.runtimes.catalog import Deprecation, Runtime, spec_hash
from trainyard.jobs.runtimes.catalog_loader import load_catalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "runtimes.md"
PLAIN = load_catalog(SHIPPED, ("plain",)).runtimes[0].versions[0]
SPEC = RuntimeSpec.from_body(dict(PLAIN.body["spec"]))
HASH = spec_hash(PLAIN.body["spec"])


def mine(*versions: AuthoredVersion, **others: Any) -> Runtime:
    given = versions or (AuthoredVersion("1.0", SPEC, "First"),)
    return author("mine", **{"framework": "plainml", "owner": "team", "summary": "Ours", "versions": given, **others})


def test_the_object_is_that_of_a_file() -> None:
    version = mine(AuthoredVersion("1.0", SPEC, "First", Release(date(2027, 1, 1), HASH)), alias="1.0").versions[0]
    expected = PLAIN.manifest()
    expected["metadata"]["name"] = "mine-1.0"
    assert version.manifest() == expected
    assert version.path == Path(__file__)


def test_a_release_whose_spec_changed_is_refused() -> None:
    changed = mine(AuthoredVersion("1.0", SPEC, "First", Release(date(2027, 1, 1), "0" * 64)))
    with pytest.raises(TrainyardError, match="a released runtime was changed"):
        load_catalog(SHIPPED, authored=[changed])


def test_both_kinds_are_one_catalog() -> None:
    catalog = load_catalog(SHIPPED, ("mine", "plain"), [mine(also_named=["ours"], alias="1.0")])
    names = [body["metadata"]["name"] for body in catalog.objects()]
    assert names == ["mine-1.0", "ours", "mine", "plain-1.0", "plain"]
    for taken, message in (({"alias": "1.0", "also_named": ["plain"]}, "the name 'plain' is also used"),):
        with pytest.raises(TrainyardError, match=message):
            load_catalog(SHIPPED, authored=[mine(**taken)])


def test_versions_are_in_order_and_deprecations_shown() -> None:
    old = AuthoredVersion("1.2", SPEC, "Old", deprecated=Deprecation(date(2027, 1, 1), date(2027, 6, 1)))
    runtime = mine(AuthoredVersion("1.10", SPEC, "New"), old)
    assert [version.version for version in runtime.versions] == ["1.2", "1.10"]
    assert runtime.versions[0].manifest()["metadata"]["labels"]["trainer.kubeflow.org/support"] == "deprecated"


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"owner": ""}, "owner"),
        ({"alias": "2.0"}, "alias 2.0 is not one of the versions 1.0"),
        ({"versions": ()}, "has no version"),
        ({"versions": [AuthoredVersion("1", SPEC, "x")]}, "versions.1"),
        ({"versions": [AuthoredVersion("1.0", SPEC, "x")] * 2}, "has a duplicate version"),
        ({"retired": {"1.0": date(2026, 1, 1)}}, "use a new number"),
    ],
)
def test_what_does_not_fit_is_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        mine(**others)


def test_a_file_of_runtimes_is_run(tmp_path: Path) -> None:
    file = tmp_path / "ours.py"
    for text, message in (
        ("x = 1", "does not define RUNTIMES"),
        ("RUNTIMES = ['a']", "does not define RUNTIMES"),
        ("1 / 0", "cannot be run: ZeroDivisionError"),
        ("def", "cannot be run: SyntaxError"),
    ):
        file.write_text(text)
        with pytest.raises(TrainyardError, match=message):
            read_authored(file)
    with pytest.raises(TrainyardError, match="cannot be read"):
        read_authored(tmp_path / "absent.py")


def test_the_example_of_the_page_works(tmp_path: Path) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    file = tmp_path / "example.py"
    file.write_text(text)
    catalog = load_catalog(SHIPPED, ("*",), read_authored(file))
    assert any(version.path == file for version, _ in catalog.sources())
