"""Quantities in the notation of Go clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard import quantity
from trainyard.api.go_quantity import canonical

RECORDED = json.loads(Path(__file__).with_name("go_quantities.json").read_text())
"""Quantities and what resource.Quantity of k8s.io/apimachinery 0.36.2 writes; tests/compatibility compares them."""

TEXTS = st.from_regex(
    r"[+-]?(0{0,2}[0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})([numkMGTP]?|[KMGTPE]i|[eE][+-]?(1[0-8]|[0-9]))",
    fullmatch=True,
)


@pytest.mark.parametrize(("sent", "written"), RECORDED)
def test_a_quantity_is_written_as_by_go(sent: Any, written: str) -> None:
    assert canonical(sent) == written


@given(TEXTS)
def test_the_amount_is_the_same_and_nothing_changes_twice(text: str) -> None:
    written = canonical(text)
    assert canonical(written) == written
    amount = quantity.parse(text)
    largest = text.endswith("i") and abs(amount) > 2**63 - 1
    if not largest:
        assert quantity.parse(written) == amount


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_becomes_text(number: int) -> None:
    assert quantity.parse(canonical(number)) == number
    assert isinstance(canonical(number), str)


@pytest.mark.parametrize("value", ["", "x", "1 Gi", "Gi", "1.2.3", "٣", "1e", "1" * 65, True, None, 0.5, [], {}])
def test_what_is_no_quantity_is_left_to_the_schema(value: Any) -> None:
    assert canonical(value) is value


def test_a_number_of_thousands_of_digits_is_left_to_the_schema() -> None:
    assert canonical(number := 10**5000) is number
