"""YAML is read as Kubernetes reads it; what Kubernetes rejects is an error with its line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.manifests.loader import load, load_all
from trainyard.manifests.nodes import InvalidYamlError


def value(text: str) -> Any:
    (document,) = load_all(text)
    return document


# What sigs.k8s.io/yaml 1.6.0 makes of a scalar without quotes.
SCALARS = {
    "y": True,
    "No": False,
    "off": False,
    "tRue": "tRue",
    "~": None,
    "": None,
    "017": 15,
    "0o17": 15,
    "08": 8,
    "0x1F": 31,
    "-0b11": -3,
    "1_000": 1000,
    "_1": "_1",
    "1:30": "1:30",
    "12:30:45": "12:30:45",
    "190:20:30.15": "190:20:30.15",
    "1.0": 1,
    "-.5": -0.5,
    "1.5": 1.5,
    "1e3": 1000,
    "1.5E+3": 1500,
    "1e-7": 1e-7,
    "1e400": "1e400",
    ".1_0": 0.1,
    "._5": "._5",
    "9223372036854775808": 9223372036854775808,
    "18446744073709551616": 18446744073709551616.0,
    "-9223372036854775809": -9223372036854775809.0,
    "2026-01-01": "2026-01-01",
    "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z",
    "=": "=",
    "<<": "<<",
    "1.2.3": "1.2.3",
    "1Gi": "1Gi",
    "0b12": "0b12",
    "+": "+",
}


@pytest.mark.parametrize("text", SCALARS)
def test_a_scalar_is_read_as_kubernetes_reads_it(text: str) -> None:
    found = value(f"a: {text}")["a"]
    assert (found, type(found)) == (SCALARS[text], type(SCALARS[text]))


@pytest.mark.parametrize(
    ("tagged", "expected"), [("!!str 1", "1"), ("!!int '5'", 5), ("!!timestamp 2026-1-1", "2026-1-1")]
)
def test_tags_of_json_types_are_read(tagged: str, expected: Any) -> None:
    assert value(f"a: {tagged}") == {"a": expected}


def test_quoted_text_stays_text() -> None:
    assert value("""{a: "1", b: 'y', "<<": {c: 1}, d: ""}""") == {"a": "1", "b": "y", "<<": {"c": 1}, "d": ""}


def test_keys_become_text() -> None:
    keys = {"2": "2", "true": "on", "1.5": "1.50", "16": "0x10", "1e+10": "1e10", "2026-01-01": "2026-01-01"}
    for key, text in keys.items():
        assert value(f"{{{text}: a}}") == {key: "a"}


def test_merge_keys_are_applied_where_they_stand() -> None:
    text = "x: &x {a: 1, b: 1}\nz: &z {b: 2, c: 2}\none: {<<: *x, a: 3}\ntwo: {a: 3, <<: *x}\nmany: {<<: [*x, *z]}\n"
    found = value(text)
    assert [found[key] for key in ("one", "two", "many")] == [
        {"a": 3, "b": 1},
        {"a": 1, "b": 1},
        {"a": 1, "b": 1, "c": 2},
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("b: 1\na: {b: 1,\n  b: 2}\n", "duplicate key 'b' (line 3)"),
        ("b: 1\ntrue: 1\nyes: 2\n", "duplicate key 'yes' (line 3)"),
        ('{"a": 1,\n "a": 2}\n', "duplicate key 'a' (line 2)"),
        ('{"b": "\\u0022:", "a": 1,\n "a": 2}\n', "duplicate key 'a' (line 2)"),
        ('{"b": "\\"\\u003A", "a": 1,\n "a": 2}\n', "duplicate key 'a' (line 2)"),
        ("a: [\n", "while parsing a flow node, did not find expected node content (line 2)"),
        ("a:\n\tb: 2\n", "found character that cannot start any token (line 2)"),
        ("a: 1\nb: .nan\n", ".nan is not a number in JSON (line 2)"),
        ("a: -.inf\n", "-.inf is not a number in JSON (line 1)"),
        ("a: &a [*a]\n", "an alias refers to a collection that contains it (line 1)"),
        ("a: *a\n", "undefined alias (line 1)"),
        ("? [a]\n: b\n", "a key must be a scalar, not a mapping or a list (line 1)"),
        ("null: b\n", "key 'null' needs quotes (line 1)"),
        ("18446744073709551615: b\n", "key '18446744073709551615' needs quotes (line 1)"),
        ("a: !!set {x}\n", "tag !!set is not supported (line 1)"),
        ("a: !!binary aGk=\n", "tag !!binary is not supported (line 1)"),
        ("a: !python/object:os.system x\n", "tag !python/object:os.system is not supported (line 1)"),
        ("a: !!int x\n", "'x' is not of the type !!int (line 1)"),
        ("a: {<<: 1}\n", "a merge key needs a mapping, or a list of mappings (line 1)"),
        ("a: \x00\n", "control characters are not allowed"),
    ],
)
def test_what_kubernetes_rejects_is_an_error_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidYamlError) as caught:
        list(load_all(text, "a.yaml", fix="do better"))
    assert reason in caught.value.reason
    assert caught.value.message == f"a.yaml is not valid YAML: {caught.value.reason}"
    assert caught.value.fix == "do better"


def test_aliases_that_grow_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(InvalidYamlError, match="aliases expand to more than 1,000,000 values"):
        value("\n".join(lines))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000 + "a", "a: " + "{" * 5_000, "? " * 100_000, '{"a":' * 100_000]
)
def test_bottomless_nesting_is_refused_before_it_exhausts_the_stack(text: str) -> None:
    for read in (load, lambda text: list(load_all(text))):
        with pytest.raises(InvalidYamlError, match="more than 200 levels of nesting"):
            read(text)


def test_many_shallow_documents_are_not_deep() -> None:
    assert len(list(load_all("\n---\n".join("a: [1, {b: [c]}]" for _ in range(300))))) == 300


def test_documents_that_are_empty_count() -> None:
    assert list(load_all("# nothing\n---\na: 1\n---\n---\n[]\n")) == [{"a": 1}, None, []]
    assert list(load_all("# nothing\n")) == []


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_content() -> None:
    assert list(load_all("\ufeffa: 1\r\nb: |\r\n  x\r\n")) == [{"a": 1, "b": "x\n"}]
    assert value('\ufeff{"a": 1}') == {"a": 1}


def test_what_comes_before_an_error_is_read() -> None:
    documents = load_all("a: 1\n---\na: [\n")
    assert next(documents) == {"a": 1}
    with pytest.raises(InvalidYamlError) as caught:
        next(documents)
    assert caught.value.line == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_json_says_what_json_says(document: dict[str, Any]) -> None:
    import json

    assert value(json.dumps(document)) == document


def test_a_file_that_is_no_manifest_keeps_numbers_as_they_are_written() -> None:
    assert load("{1.5: 1.0, y: n, on: off, at: 2026-01-01}") == {1.5: 1.0, "y": "n", True: False, "at": "2026-01-01"}
    assert load("") is None


def test_a_file_that_is_no_manifest_has_one_document() -> None:
    with pytest.raises(InvalidYamlError, match=r"more than one document \(line 3\)"):
        load("a: 1\n---\nb: 1\n")


def test_the_last_of_two_equal_keys_counts_where_another_program_has_it_so() -> None:
    assert load("a: 1\na: 2\n", last_key_wins=True) == {"a": 2}
    with pytest.raises(InvalidYamlError, match="duplicate key 'a'"):
        load("a: 1\na: 2\n")
