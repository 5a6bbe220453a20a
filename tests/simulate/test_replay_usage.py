"""A replay has the device-hours that its timeline shows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.simulate.test_replay import played
from trainyard.insight.usage.account import Span
from trainyard.insight.usage.usage_table import By, rows
from trainyard.local.simulate.replay_usage import replay_usage

GPU = "nvidia.com/gpu"
QUEUES = {"vision": {"deserved": {GPU: "32"}}, "language": {"deserved": {GPU: "32"}}}
TENANTS = {"vision": {"queues": ["vision"]}, "language": {"queues": ["language"]}}


def device_hours(folder: Path, by: By = By.TENANT, span: Span | None = None, **sections: Any) -> dict[str, Any]:
    done = played(folder, queues=QUEUES, tenants=TENANTS, **sections)
    found = rows(replay_usage(done, span), by)
    return {
        row.names[by.value]: {name: amount for name, amount in row.device_hours.items() if amount}
        for row in found
        if row.names
    }


def test_jobs_that_do_not_fit_wait(tmp_path: Path) -> None:
    jobs = {
        "first": {"tenant": "vision", "pods": 6, "for": "1h"},
        "second": {"tenant": "language", "at": "30m", "pods": 4, "for": "1h"},
    }
    assert device_hours(tmp_path, jobs=jobs) == {
        "vision": {"asked": 48, "allocated": 48, "borrowed": 16},
        "language": {"asked": 48, "waited": 16, "allocated": 32, "lent": 16},
    }
    assert device_hours(tmp_path, span=Span(0, 600), jobs=jobs)["vision"] == {
        "asked": 8,
        "allocated": 8,
        "borrowed": Fraction(16, 6),
    }


def test_a_lost_node_is_not_taken_back(tmp_path: Path) -> None:
    found = device_hours(
        tmp_path,
        jobs={"gang": {"tenant": "vision", "pods": 8, "for": "1h"}},
        events=[{"at": "30m", "fail": "rack-a-node-0"}, {"at": "1h", "repair": "rack-a"}],
    )
    assert found["vision"] == {"asked": 128, "waited": 32, "allocated": 96, "borrowed": 48}


def test_a_share_that_changes_changes_what_is_borrowed(tmp_path: Path) -> None:
    found = device_hours(
        tmp_path,
        By.QUEUE,
        jobs={"gang": {"tenant": "vision", "pods": 4, "for": "2h"}},
        events=[{"at": "1h", "queue": "vision", "change": {"deserved": {GPU: "16"}}}],
    )
    assert found["vision"] == {"asked": 64, "allocated": 64, "borrowed": 16}
