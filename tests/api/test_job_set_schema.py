"""The recorded schema of the JobSet template is the pinned one, and its dates are those of the API server."""

from __future__ import annotations

import json

import pytest

from tools.reference.job_set_schema import pinned_schema, recorded
from trainyard.api.date_time import is_date_time
from trainyard.api.job_set_schema import FILE, recorded_schema


def test_the_recorded_schema_is_that_of_the_pinned_jobset() -> None:
    assert recorded_schema() == pinned_schema(), "write it again: python -m tools.reference.job_set_schema"


def test_the_file_is_written_in_one_way() -> None:
    assert json.loads(FILE.read_text()) == recorded(pinned_schema())


def test_a_schema_for_which_the_notation_has_no_word_is_an_error() -> None:
    with pytest.raises(StopIteration):
        recorded({"type": "number"})


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("2026-01-31T12:00:00Z", True),
        ("2026-01-31t12:00:00.5+02:00", True),
        ("0000-02-29T00:00:00Z", True),
        ("2026-02-29T00:00:00Z", False),
        ("2026-01-31T24:00:00Z", False),
        ("2026-01-31T12:00:00", False),
        ("2026-01-31", False),
        ("2026-1-31T12:00:00Z", False),
        ("yesterday", False),
    ],
)
def test_date_times(text: str, valid: bool) -> None:
    assert is_date_time(text) == valid
