"""What is written as YAML is read back as the same, here and by Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.manifests.test_loader import SCALARS
from trainyard.manifests.dump import dump, dump_all
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
