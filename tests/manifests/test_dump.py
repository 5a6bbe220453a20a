"""What is written as YAML is read back as the same, here and by Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.manifests.test_loader import SCALARS
from trainyard.manifests.dump import comment, dump, dump_all
from trainyard.manifests.loader import load_all

TEXT = st.text(st.characters(codec="utf-8")) | st.sampled_from(sorted(SCALARS)) | st.from_regex(r"[-+.0-9_:eExobyn]+")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
@example(["a\r\nb", " \n x", "tab\there\n", "trail \nx", "\x85", "\n", "\ufeff", "\u2028"])
def test_values_come_back(value: Any) -> None:
    for flow in (False, None, True):
        assert list(load_all(dump(value, flow=flow))) == [value]
    assert list(load_all(dump_all([value, value]))) == [value, value]


@pytest.mark.parametrize("text", ["y", "N", "1e3", "0o17", "08", "1:30", "on", "2026-01-01", "null", ".inf", ""])
def test_text_that_kubernetes_would_read_as_something_else_has_quotes(text: str) -> None:
    assert dump({"value": text}) == f"value: '{text}'\n"


def test_scripts_are_blocks_and_lists_of_numbers_one_line() -> None:
    value = {"script": "set -e\nrun\n", "ports": [1, 2], "names": ["a", "b"]}
    assert dump(value) == "script: |\n  set -e\n  run\nports: [1, 2]\nnames:\n- a\n- b\n"


def test_shared_values_are_written_out() -> None:
    shared = {"a": ["b"]}
    assert "&" not in dump([shared, shared])


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b[2Jb",
        "a\n\u202eb\n",
        "a\u2028b\u0085c",
        "\ufeff\U000e0041",
        "set -e\n::add-mask::x\n",
        "::stop-commands::x",
        "  ::set-output name=a::b\nc",
        f"{'x' * 130} ::error::y {'z' * 130}",
        "a ##[add-mask]b",
        "###[group]\n##vso[task]",
        "tab\t::error::x\ry",
    ],
)
def test_yaml_controls_neither_a_terminal_nor_a_ci_runner(text: str) -> None:
    value = {"a": text, text: ["b", text]}
    for written in (dump(value), dump_all([value]), dump(value, flow=True)):
        assert list(load_all(written)) == [value]
        for line in written.split("\n"):
            assert line.replace("\t", "").isprintable(), ascii(line)
            assert not line.lstrip().startswith("::"), line
            assert "##[" not in line, line
            assert "##vso[" not in line, line


def test_addresses_and_letters_are_written_as_they_are() -> None:
    value = {"a": "std::vector", "b": "##", "c": "Größe 模型", "d": "می‌خواهم"}
    assert dump(value) == "a: std::vector\nb: '##'\nc: Größe 模型\nd: می‌خواهم\n"


@pytest.mark.parametrize("text", ["a\n---\nkind: Forged", "a\u2028b", "a\rb", "\x1b[2J"])
def test_a_comment_is_one_line(text: str) -> None:
    written = comment(text)
    assert written.startswith("# ")
    assert written[:-1].isprintable()
    assert list(load_all(f"{written}a: 1")) == [{"a": 1}]
