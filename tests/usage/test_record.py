"""The record survives in a bounded number of ConfigMaps, and goes on after a time without a writer."""

from __future__ import annotations

import base64
import gzip
from itertools import pairwise
from typing import Any

import pytest

from tests.usage.brute_force import GPU
from trainyard.errors import TrainyardError
from trainyard.insight.usage.account import Gap, Span
from trainyard.insight.usage.levels import Level, QueueLevel, QueueTenants, TakenBack, UsageGang
from trainyard.insight.usage.record import newest, read_record
from trainyard.insight.usage.record_parts import HEAD, MAX_GAPS, SLOTS, Head, Segment, TenantGaps, gaps_name, names_of
from trainyard.insight.usage.resumption import resumed

JOB = UsageGang("vision", "TrainJob", "train", "vision", "torch-2.8")
LINES = [
    Level(10, JOB, GPU, 8000, 0, 0),
    Level(20, JOB, GPU, 8000, 8000, 4000),
    TakenBack(20, 50, JOB, GPU, 8000),
    Level(50, JOB, GPU, 0, 0, 0),
]
QUEUES = [QueueLevel(0, "vision", GPU, 4000, 1000, 0)]
OWN = QueueTenants("vision", ("vision",))


def body(part: Segment | Head) -> dict[str, Any]:
    if isinstance(part, Head):
        return {"metadata": {"name": HEAD}, "data": part.data()}
    return {"metadata": {"name": part.name}, "data": part.data(), "binaryData": part.binary_data()}


def segment(namespace: str, sequence: int = 0, since: int = 0) -> Segment:
    return Segment(namespace, sequence, since)


def test_what_is_written_is_read() -> None:
    jobs, queues = segment("vision"), segment("")
    jobs.append([*LINES, OWN])
    queues.append(QUEUES)
    record = read_record([body(jobs), body(Head(0, 100)), body(queues)])
    assert record is not None
    assert list(record.lines()) == [*QUEUES, *LINES, OWN]
    usage = record.usage(Span(0, 200))
    sums = usage.jobs[JOB, GPU]
    assert (sums.asked, sums.allocated, sums.borrowed, sums.taken_back) == (320_000, 240_000, 120_000, 240_000)
    assert (usage.recorded, usage.tenants) == (Span(0, 100), {"vision": ("vision",)})


def test_a_segment_is_continued_after_it_was_read() -> None:
    first = segment("vision")
    first.append(LINES[:2])
    again = Segment.of(body(first))
    again.append(LINES[2:])
    whole = segment("vision")
    whole.append(LINES)
    assert body(again) == body(whole)


def test_a_job_that_goes_on_is_counted_until_the_record_ends() -> None:
    jobs = segment("vision")
    jobs.append(LINES[:2])
    record = read_record([body(jobs), body(Head(0, 100))])
    assert record is not None
    assert record.usage(Span(0, 1000)).jobs[JOB, GPU].allocated == 8000 * 80


def test_the_record_begins_where_no_namespace_has_dropped_anything() -> None:
    old, new = segment("vision", SLOTS, 500), segment("language", 0, 100)
    record = read_record([body(old), body(new), body(Head(100, 900))])
    assert record is not None
    assert record.usage(Span(0, 1000)).recorded == Span(500, 900)
    assert old.name == segment("vision").name, "the ring has a bounded number of ConfigMaps"


def test_a_namespace_named_queues_has_other_config_maps() -> None:
    assert not set(names_of("")) & set(names_of("queues"))


def test_no_head_is_no_record() -> None:
    assert read_record([body(segment("vision"))]) is None


def test_a_foreign_config_map_is_named() -> None:
    with pytest.raises(TrainyardError, match="ConfigMap trainyard-usage is not the head of a record"):
        read_record([{"metadata": {"name": HEAD}, "data": {"format": "1", "until": "soon"}}])
    with pytest.raises(TrainyardError, match="format 1: format '2'"):
        read_record([{"metadata": {"name": HEAD}, "data": {**Head(0, 1).data(), "format": "2"}}])


@pytest.mark.parametrize("what", ["packed", "lines", "numbers", "format", "kinds"])
def test_an_unreadable_segment_is_a_gap_of_the_others(what: str) -> None:
    first, second, third = (segment("vision", number, number * 100) for number in range(3))
    other = JOB._replace(name="other")
    first.append([Level(10, JOB, GPU, 8000, 8000, 0), Level(20, other, GPU, 8000, 8000, 0)])
    third.append([Level(200, other, GPU, 8000, 8000, 0)])
    broken = body(second)
    broken["metadata"]["labels"] = {"trainyard.dev/usage": "1"}
    lines = {"lines": b'["l",0,1]', "kinds": b'["l",7,150,"nvidia.com/gpu",1,1,0]'}.get(what)
    if lines is not None:
        broken["binaryData"]["lines.gz"] = base64.b64encode(gzip.compress(lines)).decode()
    elif what == "packed":
        broken["binaryData"]["lines.gz"] = "AAAA"
    else:
        broken["data"] |= {"since": "soon"} if what == "numbers" else {"format": "2"}
    record = read_record([body(first), broken, body(third), body(Head(0, 300))])
    assert record is not None
    assert record.gaps() == [Gap(0, 200)], "known before the lines are read"
    assert [part.sequence for part, _ in record.segments] == [0, 2]
    usage = record.usage(Span(0, 1000))
    assert usage.gaps == (Gap(0, 200),)
    assert usage.jobs[JOB, GPU].allocated == 8000 * 10, "a job that ended in the gap counts up to what is known"
    assert usage.jobs[other, GPU].allocated == 8000 * 280


def test_a_queue_that_changed_its_tenant_belongs_to_the_new_one() -> None:
    old, new = segment("vision"), segment("language")
    old.append([OWN, QueueTenants("vision", ())])
    new.append([QueueTenants("vision", ("language",))])
    record = read_record([body(old), body(new), body(Head(0, 300))])
    assert record is not None
    assert record.usage(Span(0, 1000)).tenants == {"vision": ("language",)}


def test_a_namespace_that_is_not_written_has_a_gap_up_to_now() -> None:
    jobs = segment("vision")
    jobs.append(LINES)
    gaps = TenantGaps((Gap(3, 4),), 70)
    stored = {"metadata": {"name": gaps_name("vision")}, "data": gaps.data()}
    record = read_record([body(jobs), stored, body(Head(0, 100, (Gap(1, 2),)))])
    assert record is not None
    assert record.usage(Span(0, 1000)).gaps == (Gap(1, 2), Gap(3, 4), Gap(70, 100))


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
    assert list(resumed([], LINES, until=60)) == [], "the segment with its lines is an older one"


def test_the_newest_segments_are_known_by_their_labels() -> None:
    def stored(name: str, number: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {"trainyard.dev/usage": number}}}

    (first, second), other = names_of("vision")[:2], names_of("language")[3]
    found = newest([stored(HEAD, "0"), stored(first, "16"), stored(second, "9"), stored(other, "x")])
    assert sorted(found) == sorted([HEAD, first, other])


def test_a_segment_that_begins_with_many_levels_has_room_for_as_much_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard.insight.usage.record_parts.SEGMENT_BYTES", 100)
    jobs = segment("vision")
    jobs.append(Level(at, JOB._replace(name=f"job-{at}"), GPU, at * 7919 % 1000, 0, 0) for at in range(100))
    jobs.binary_data()
    assert not jobs.full
    jobs.append(Level(at, JOB._replace(name=f"job-{at}"), GPU, at * 7919 % 1000, 0, 0) for at in range(100, 300))
    jobs.binary_data()
    assert jobs.full


def test_a_segment_does_not_grow_with_each_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard.insight.usage.record_parts.SEGMENT_BYTES", 100)
    jobs = segment("vision")
    for at in range(5000):
        jobs.append([Level(at, JOB._replace(name=f"job-{at}"), GPU, at * 7919 % 1000, 0, 0)])
        if at % 500 == 0:
            jobs = Segment.of(body(jobs))
            jobs.binary_data()
    assert jobs.full
