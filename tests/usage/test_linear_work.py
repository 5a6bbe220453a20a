"""Twice the jobs are twice the work: from pods to the record, and from the record to the table."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.usage import record_of
from tests.counting import calls
from trainyard.insight.usage.account import Span
from trainyard.insight.usage.record import read_record
from trainyard.insight.usage.usage_table import By, as_csv, rows

FEW, MANY = 500, 2000


def table(bodies: Any) -> str:
    record = read_record(bodies)
    assert record is not None
    return as_csv(By.JOB, rows(record.usage(Span(0, 10**9)), By.JOB))


@pytest.mark.slow
def test_the_work_is_linear_in_the_number_of_jobs() -> None:
    few, many = record_of(FEW), record_of(MANY)
    assert len(table(many).splitlines()) == MANY + 1
    growth = MANY / FEW * 1.1
    assert calls(lambda: record_of(MANY)) < growth * calls(lambda: record_of(FEW))
    assert calls(lambda: table(many)) < growth * calls(lambda: table(few))
