"""Quantities: exact, like Kubernetes reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard import quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", Fraction(0)),
        ("8", Fraction(8)),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1e3", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("2E-3", Fraction(1, 500)),
        ("1e018", Fraction(10**18)),
        ("0." + "0" * 29 + "1", Fraction(1, 10**9)),
        (".5", Fraction(1, 2)),
        ("1.", Fraction(1)),
        ("+3k", Fraction(3000)),
        ("-2", Fraction(-2)),
        ("0.1n", Fraction(1, 10**9)),
        (3, Fraction(3)),
        (0.25, Fraction(1, 4)),
    ],
)
def test_every_notation_is_read_exactly(text: str | float, amount: Fraction) -> None:
    assert quantity.parse(text) == amount


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "1gi", "abc", "1e", "1.2.3", "--1", "1" * 33, "1e19", "1e-19", "1e999", True, "٣"]
)
def test_what_is_no_quantity_is_refused(text: str | bool) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        (Fraction(3, 2), "cpu", "1500m"),
        (Fraction(1000), "nvidia.com/gpu", "1000"),
        (Fraction(2**40), "memory", "1Ti"),
        (Fraction(1536 * 2**20), "memory", "1536Mi"),
        (Fraction(1000), "memory", "1000"),
        (Fraction(2**21), "hugepages-2Mi", "2Mi"),
        (Fraction(0), "memory", "0"),
        (Fraction(1, 10**9), "cpu", "1n"),
    ],
)
def test_amounts_are_written_as_people_expect(amount: Fraction, resource: str, text: str) -> None:
    assert quantity.format(amount, resource) == text


@given(st.integers(0, 10**24), st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]))
def test_writing_and_reading_gives_the_same_amount(billionths: int, resource: str) -> None:
    amount = Fraction(billionths, 10**9)
    assert quantity.parse(quantity.format(amount, resource)) == amount


@given(st.fractions(max_denominator=10**9), st.integers(-(10**6), 10**6))
def test_a_multiple_is_exact(amount: Fraction, count: int) -> None:
    assert quantity.multiple(amount, count) == amount * count
