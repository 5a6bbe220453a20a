"""The record survives in a bounded number of bounded ConfigMaps, and goes on after a time without a writer."""

from __future__ import annotations

import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.usage.brute_force import GPU
from trainyard.errors import TrainyardError
from trainyard.insight.usage.account import Gap, Span
from trainyard.insight.usage.levels import Level, QueueTenants, TakenBack, UsageGang
from trainyard.insight.usage.month_document import OTHERS
from trainyard.insight.usage.month_usage import DAY, MAX_BYTES, MonthUsage
from trainyard.insight.usage.record import HEAD, MAX_GAPS, Head, name_of, names_of, read_month, read_record
from trainyard.insight.usage.resumption import resumed
from trainyard.insight.usage.usage_book import UsageBook

JOB = UsageGang("vision", "TrainJob", "train", "vision", "torch-2.8")
LINES = [
    Level(10, JOB, GPU, 8000, 0, 0),
    Level(20, JOB, GPU, 8000, 8000, 4000),
    TakenBack(20, 50, JOB, GPU, 8000),
    Level(50, JOB, GPU, 0, 0, 0),
]
JANUARY = 31 * DAY
"""1970 has days too."""


def body(part: MonthUsage | Head, now: int = 0) -> dict[str, Any]:
    if isinstance(part, Head):
        return {"metadata": {"name": HEAD}, "data": part.data()}
    name = name_of(part.document.tenant, part.document.month)
    labels = {"trainyard.dev/usage": part.document.month}
    return {"metadata": {"name": name, "labels": labels}, "data": part.data(now)}


def written(lines: list[Any], now: int) -> list[dict[str, Any]]:
    book = UsageBook(0)
    book.add(lines)
    book.advance(now)
    return [body(each, now) for each in book.changed.values()]


def test_what_is_written_is_read() -> None:
    record = read_record([*written(LINES, 100), body(Head(0, 100))])
    assert record is not None
    usage = record.usage(Span(0, 200))
    sums = usage.jobs[JOB, GPU]
    assert (sums.asked, sums.allocated, sums.borrowed, sums.taken_back) == (320_000, 240_000, 120_000, 240_000)
    assert usage.recorded == Span(0, 100)


def test_a_job_that_goes_on_is_counted_until_the_record_ends() -> None:
    bodies = written(LINES[:2], 30)
    record = read_record([*bodies, body(Head(0, DAY + 100))])
    assert record is not None
    assert record.usage(Span(0, DAY)).jobs[JOB, GPU].allocated == 8000 * (DAY - 20), "nothing was written at midnight"
    assert record.usage(Span(DAY, 2 * DAY)).jobs[JOB, GPU].allocated == 8000 * 100


def test_a_document_that_its_writer_left_counts_up_to_the_end_of_its_month() -> None:
    record = read_record([*written(LINES[:2], 30), body(Head(0, JANUARY + 100))])
    assert record is not None
    assert record.usage(Span(0, 2 * JANUARY)).jobs[JOB, GPU].allocated == 8000 * (JANUARY - 20)


def test_a_job_that_runs_over_the_end_of_a_month_is_in_both() -> None:
    bodies = written([*LINES[:2], Level(JANUARY + 10, JOB, GPU, 0, 0, 0)], JANUARY + 50)
    record = read_record([*bodies, body(Head(0, JANUARY + 100))])
    assert record is not None
    assert record.usage(Span(0, JANUARY)).jobs[JOB, GPU].allocated == 8000 * (JANUARY - 20)
    assert record.usage(Span(JANUARY, JANUARY + DAY)).jobs[JOB, GPU].allocated == 8000 * 10
    (job,) = record.months["vision", "1970-02"].jobs
    assert (job.created, job.started, job.ended) == (10, 20, JANUARY + 10)


def test_a_span_has_whole_days_and_the_present_one_ends_with_the_record() -> None:
    record = read_record([body(Head(0, 3 * DAY + 500))])
    assert record is not None
    assert record.days(Span(DAY + 5, 2 * DAY - 7)) == Span(DAY, 2 * DAY)
    assert record.days(Span(DAY, 3 * DAY + 5)) == Span(DAY, 3 * DAY + 500)
    assert record.days(Span(DAY, 3 * DAY + 600)) == Span(DAY, 3 * DAY + 600)


def test_a_namespace_named_queues_has_other_config_maps() -> None:
    assert not set(names_of("")) & set(names_of("queues"))


def test_a_role_can_name_the_documents_of_a_tenant_for_ever() -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    months = {(start + datetime.timedelta(days=days)).strftime("%Y-%m") for days in range(1000)}
    assert {name_of("vision", month) for month in months} == set(names_of("vision"))


def test_no_head_is_no_record() -> None:
    assert read_record(written(LINES, 100)) is None


def test_a_foreign_config_map_is_named() -> None:
    with pytest.raises(TrainyardError, match="ConfigMap trainyard-usage is not the head of a record"):
        read_record([{"metadata": {"name": HEAD}, "data": {"format": "2", "until": "soon"}}])
    with pytest.raises(TrainyardError, match="format 2: format '3'"):
        read_record([{"metadata": {"name": HEAD}, "data": {**Head(0, 1).data(), "format": "3"}}])


@pytest.mark.parametrize(
    "data",
    [
        {"usage.json": "{"},
        {"usage.json": "[]"},
        {},
        {"usage.json": '{"format": "3", "tenant": "vision", "month": "1970-01", "until": 1}'},
        {"usage.json": '{"format": "2", "tenant": "vision", "month": "1970-00", "until": 1}'},
        {"usage.json": '{"format": "2", "tenant": "language", "month": "1970-01", "until": 1}'},
        {"usage.json": '{"format": "2", "tenant": "vision", "month": "1970-01", "until": 1}', "jobs.json": "{}"},
    ],
)
def test_an_unreadable_document_is_a_gap(data: dict[str, str]) -> None:
    (stored,) = written(LINES, 100)
    record = read_record([{**stored, "data": data}, body(Head(50, 300))])
    assert record is not None
    usage = record.usage(Span(0, 1000))
    assert (usage.jobs, usage.gaps) == ({}, (Gap(50, 300),))


def test_a_field_of_a_later_version_is_ignored() -> None:
    (stored,) = written(LINES, 100)
    stored["data"]["usage.json"] = stored["data"]["usage.json"].replace("{", '{"new": 1,', 1)
    assert read_month(stored) is not None


def test_a_queue_that_changed_its_tenant_belongs_to_the_new_one() -> None:
    book = UsageBook(0)
    book.own(0, [QueueTenants("vision", ("vision",))])
    book.own(5, [QueueTenants("vision", ("language",))])
    record = read_record([*(body(each) for each in book.changed.values()), body(Head(0, 300))])
    assert record is not None
    assert record.usage(Span(0, 1000)).tenants == {"vision": ("language",)}


def test_of_too_many_jobs_the_oldest_that_ended_are_dropped_and_counted() -> None:
    lines = [*LINES[:2]]
    count = 6000
    for index in range(count):
        gang = JOB._replace(name=f"job-{index}")
        lines += [Level(100 + index, gang, GPU, 8000, 8000, 0), Level(101 + index, gang, GPU, 0, 0, 0)]
    (stored,) = written(lines, 10_000)
    assert sum(len(text) for text in stored["data"].values()) <= MAX_BYTES
    month = read_month(stored)
    assert month is not None
    assert 0 < month.document.dropped < count
    assert [job.name for job in month.jobs] == ["train", *(f"job-{i}" for i in range(month.document.dropped, count))]
    record = read_record([stored, body(Head(0, 10_000))])
    assert record is not None
    jobs = record.usage(Span(0, DAY)).jobs
    others = UsageGang("vision", "", OTHERS, "vision", "torch-2.8")
    assert jobs[others, GPU].allocated == 8000 * month.document.dropped
    assert sum(each.allocated for each in jobs.values()) == 8000 * (count + 10_000 - 20)


def test_too_many_runtimes_are_summed_without_names() -> None:
    lines = list[Any]()
    for index in range(9000):
        gang = JOB._replace(name=f"job-{index}", runtime=f"vision/runtime-{index}")
        lines += [Level(100 + index, gang, GPU, 8000, 8000, 0), Level(101 + index, gang, GPU, 0, 0, 0)]
    (stored,) = written(lines, 10_000)
    assert sum(len(text) for text in stored["data"].values()) <= MAX_BYTES
    record = read_record([stored, body(Head(0, 10_000))])
    assert record is not None
    ((gang, sums),) = ((gang, sums) for (gang, _), sums in record.usage(Span(0, DAY)).jobs.items())
    assert (gang.name, gang.runtime, sums.allocated) == (OTHERS, OTHERS, 8000 * 9000)


def test_a_time_without_a_writer_is_a_gap() -> None:
    head = Head(0, 100).resumed(90_000)
    assert head == Head(0, 90_000, (Gap(100, 90_000),))
    assert Head.of(body(head)) == head
    assert head.resumed(90_000) == head


def test_gaps_are_bounded_and_none_is_forgotten() -> None:
    head = Head(0, 0)
    for index in range(MAX_GAPS + 50):
        head = Head(0, head.until + 10 + index, head.gaps).resumed(head.until + 15 + index)
    assert len(head.gaps) == MAX_GAPS
    assert head.gaps[0].start == 10
    assert all(before.end < after.start for before, after in pairwise(head.gaps))


def test_a_job_that_is_gone_has_ended_with_the_record() -> None:
    assert list(resumed(LINES[:2], [], until=40)) == [Level(40, JOB, GPU, 0, 0, 0)]


def test_a_job_that_survived_the_gap_has_no_new_line() -> None:
    assert list(resumed(LINES[:2], LINES[:2], until=40)) == []


def test_what_happened_to_a_pod_in_the_gap_is_known_by_its_times() -> None:
    later = Level(60, JOB, GPU, 8000, 0, 0)
    assert list(resumed(LINES[:2], [*LINES[:2], later], until=40)) == [later]


def test_what_exists_but_was_not_written_counts_from_the_last_write_on() -> None:
    assert list(resumed([], LINES, until=40)) == [Level(40, JOB, GPU, 8000, 8000, 4000), *LINES[2:]]


def test_a_finished_job_whose_pods_still_exist_is_not_counted_again() -> None:
    assert list(resumed(LINES, LINES, until=60)) == []
    assert list(resumed([], LINES, until=60)) == [], "the document with its sums is an older one"
