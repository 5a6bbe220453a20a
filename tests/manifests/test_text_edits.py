"""Single values of a YAML text change; comments and everything else stay."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.jobs.runtimes.index import index_rank
from trainyard.manifests.text_edits import dumped, removed, with_value

INDEX = """\
# The heading.
runtimes:
  # Before b.
  b:
    owner: team  # who answers
    alias: "1.0"
    versions:
      "1.0":
        released: 2027-01-01
        changes: >-
          First,
          of many
  # Before d.
  d: {owner: x}

# The end.
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("b", "owner"), "other", "owner: team  # who", "owner: other  # who"),
        (("b", "alias"), "1.10", 'alias: "1.0"', 'alias: "1.10"'),
        (("b", "alsoNamed"), ["e"], '    alias: "1.0"\n', '    alias: "1.0"\n    alsoNamed:\n      - e\n'),
        (("b", "versions", "1.2", "changes"), "x", "of many\n", 'of many\n      "1.2":\n        changes: x\n'),
        (
            ("b", "versions", "0.9"),
            {"changes": "x"},
            '      "1.0":\n',
            '      "0.9":\n        changes: x\n      "1.0":\n',
        ),
        (("b", "versions", "1.0", "changes"), "z", ">-\n          First,\n          of many", "z"),
        (("c",), {"owner": "x"}, "  # Before d.", "  c:\n    owner: x\n  # Before d."),
        (("a",), {"owner": "x"}, "  # Before b.", "  a:\n    owner: x\n  # Before b."),
        (("d", "summary"), "z", "  d: {owner: x}\n", "  d:\n    owner: x\n    summary: z\n"),
        (
            ("b", "versions", "1.0", "deprecated"),
            {"since": datetime.date(2027, 2, 1)},
            "of many\n",
            "of many\n        deprecated:\n          since: 2027-02-01\n",
        ),
    ],
)
def test_a_value_is_set_where_it_belongs(path: tuple[str, ...], value: Any, old: str, new: str) -> None:
    assert with_value(INDEX, ("runtimes", *path), value, index_rank) == INDEX.replace(old, new, 1)


def test_a_key_goes_with_the_comment_above_it() -> None:
    assert removed(INDEX, ("runtimes", "d")) == INDEX.replace("  # Before d.\n  d: {owner: x}\n", "")
    assert yaml.safe_load(removed(INDEX, ("runtimes", "b", "versions", "1.0")))["runtimes"]["b"]["versions"] == {}
    without_b = removed(INDEX, ("runtimes", "b"))
    assert without_b == "# The heading.\nruntimes:\n  # Before d.\n  d: {owner: x}\n\n# The end.\n"
    with pytest.raises(KeyError):
        removed(INDEX, ("runtimes", "nobody", "x"))


@pytest.mark.parametrize("text", ["", "runtimes: {}\n", "runtimes:\n"])
def test_an_empty_index_takes_its_first_entry(text: str) -> None:
    assert yaml.safe_load(with_value(text, ("runtimes", "a", "owner"), "x", index_rank)) == {
        "runtimes": {"a": {"owner": "x"}}
    }


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("a:\n  - b: 1\n    c: 2\n", ("a", 0, "b"), "a:\n  - b: x\n    c: 2\n"),
        ("a:\n  - b: 1\n    c: 2\n", ("a", 0, "d"), "a:\n  - b: 1\n    c: 2\n    d: x\n"),
        ("a: [{b: 1}]\n", ("a", 0, "b"), "a:\n  - b: x\n"),
        ("a:\n  b:\n", ("a", "b"), "a:\n  b: x\n"),
        ("a:\n  b: 1", ("a", "c"), "a:\n  b: 1\n  c: x\n"),
    ],
)
def test_lists_flows_and_missing_ends_are_no_obstacle(text: str, path: tuple[str | int, ...], expected: str) -> None:
    assert with_value(text, path, "x") == expected


def test_a_position_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        with_value("a:\n  - b\n", ("a", 3, "c"), 1)


def test_text_that_looks_like_something_else_is_quoted() -> None:
    values = {"a": "1.0", "b": "true", "c": "2027-01-01", "d": "plain words", "e": ""}
    assert yaml.safe_load(dumped(values)) == values
    assert dumped(values).startswith('a: "1.0"\nb: "true"\n')
    assert dumped(["y", "1e3", "0o17"]) == '- "y"\n- "1e3"\n- "0o17"\n'


WORDS = st.sampled_from(["a", "b", "1.0", "true", "x y", "# no", "- z", "ä: b"])
VALUES = st.recursive(WORDS | st.integers(0, 9), lambda inner: st.dictionaries(WORDS, inner, max_size=3), max_leaves=8)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(WORDS, VALUES, min_size=1, max_size=4), st.lists(WORDS, min_size=1, max_size=3), VALUES)
def test_the_result_says_what_was_asked_for(data: dict[str, Any], path: list[str], value: Any) -> None:
    expected: Any = yaml.safe_load(dumped(data))
    place = expected
    for part in path[:-1]:
        if not isinstance(place.get(part), dict):
            place[part] = {}
        place = place[part]
    place[path[-1]] = value
    assert yaml.safe_load(with_value(dumped(data), path, value)) == expected


def test_the_shipped_index_is_in_the_documented_order() -> None:
    text = (Path(__file__).resolve().parents[2] / "runtimes" / "index.yaml").read_text()
    index = yaml.safe_load(text)["runtimes"]
    assert list(index) == sorted(index)
    for runtime in index.values():
        order = [index_rank(("runtimes", "x"), key) for key in runtime]
        assert order == sorted(order)
