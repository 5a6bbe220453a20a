"""The scenarios hold on the real scheduler: one control plane, one replay after the other."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from tests.queues.forecast_states import compare, random_state
from tests.simulate.replay_usage import replay_usage
from tests.support import ROOT, environment, require, trainyard
from trainyard.errors import TrainyardError
from trainyard.insight.usage.usage_table import By, rows
from trainyard.local.simulate.replay import Replay
from trainyard.local.simulate.scenario import load_scenario
from trainyard.local.simulate.session import ReplaySession
from trainyard.progress import SilentProgress
from trainyard.scheduling.queues.forecast import ForecastState

pytestmark = pytest.mark.cluster

CLUSTER = "scenarios"
SAMPLE = (124, 125, 150)
"""Seeds of three presets, the last with two resources and preemption, which rests after many sessions."""
STATES = int(os.environ.get("TRAINYARD_FORECAST_STATES", "0"))
"""Number of random states whose forecast is compared with the scheduler; 0: those of the sample."""
FIRST_SEED = int(os.environ.get("TRAINYARD_FORECAST_SEED", "100"))
SEEDS = tuple(range(FIRST_SEED, FIRST_SEED + STATES)) or SAMPLE
LEAST_CERTAIN = 0.7
"""Share of the forecasts that must not be marked as estimates, over all states: about 80% are not."""
MOST_SKIPPED = len(SEEDS) // 12
"""Number of states that may not come to rest: jobs that evict each other in turn."""
ATTEMPTS = 2
"""Replays of a state: in some orders of the sessions, jobs of a state that usually comes to rest evict each other."""
SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.yaml"))


def by_fleet(path: Path) -> tuple[int, str, str]:
    """Replays of one fleet and configuration follow each other: what they share is made once."""
    loaded = load_scenario(path)
    return len(loaded.fabric.nodes), loaded.settings.scheduler.preset, path.stem


@pytest.fixture(scope="module")
def session(state_home: Path) -> Iterator[ReplaySession]:
    """A control plane with Volcano."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_STATE_HOME", str(state_home))
        session = ReplaySession(CLUSTER)
        try:
            session.open(SilentProgress(), nodes=max(len(load_scenario(path).fabric.nodes) for path in SCENARIOS))
            yield session
        finally:
            session.close()


@pytest.mark.parametrize("path", sorted(SCENARIOS, key=by_fleet), ids=lambda path: path.stem)
def test_a_scenario_holds(session: ReplaySession, state_home: Path, path: Path) -> None:
    replay = session.replay(load_scenario(path))
    unmet = [str(verdict) for verdict in replay.results if not verdict.holds]
    logs = ("cluster", "logs", "vc-scheduler", "--name", CLUSTER)
    assert unmet == [], require(trainyard(*logs, env=environment(state_home))) + "\n".join(unmet)
    if path.stem in DEVICE_HOURS:
        assert device_hours(replay) == DEVICE_HOURS[path.stem]


DEVICE_HOURS = {
    "usage": {
        # Alone, 64 for 1 h and 32 of them borrowed; 32 for 2 h; 64 for 3 h, again 32 borrowed; the last four for 3 h.
        "vision": {"asked": 480, "waited": 64, "allocated": 416, "borrowed": 128, "taken_back": 32, "lent": 0},
        "language": {"asked": 64, "waited": 0, "allocated": 64, "borrowed": 0, "taken_back": 0, "lent": 128},
    }
}
"""What the scheduler's decisions in a scenario mean in device-hours of each tenant."""


def device_hours(replay: Replay) -> dict[str, dict[str, Fraction | None]]:
    found = rows(replay_usage(replay), By.TENANT)
    return {row.names["tenant"]: row.device_hours for row in found if row.names}


@dataclass
class Tally:
    """What the random states of this run have shown."""

    certain: Counter[ForecastState] = field(default_factory=Counter)
    forecasts: int = 0
    skipped: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.mark.parametrize("seed", SEEDS)
def test_forecasts_that_are_no_estimates_come_true(
    session: ReplaySession, tmp_path: Path, tally: Tally, seed: int
) -> None:
    state = random_state(seed, tmp_path)
    for _ in range(ATTEMPTS):
        try:
            found = list(compare(session.replay(state)))
            break
        except TrainyardError as error:
            if "does not become idle" not in str(error):
                raise
    else:
        tally.skipped.append(seed)
        pytest.skip(f"state {seed} does not come to rest")
    certain = [each for each in found if not each.expected.estimate]
    tally.forecasts += len(found)
    tally.certain.update(each.expected.state for each in certain)
    print(
        f"\nstate {seed}: {len(certain)} of {len(found)} forecasts certain; of the estimates,"
        f" {sum(each.agrees for each in found if each.expected.estimate)} came true"
    )
    for each in found:
        if not each.agrees:
            print(f"  {each}")
    assert [str(each) for each in certain if not each.agrees] == [], (tmp_path / f"state-{seed}.yaml").read_text()


def test_most_forecasts_are_no_estimates(tally: Tally) -> None:
    """A forecast that calls everything an estimate is never wrong, and of no use."""
    if not (tally.forecasts or tally.skipped):
        pytest.skip("no state was replayed in this run")
    certain = dict(tally.certain)
    print(f"\n{tally.certain.total()} of {tally.forecasts} forecasts certain: {certain}; skipped: {tally.skipped}")
    assert len(tally.skipped) <= MOST_SKIPPED
    assert tally.certain.total() >= LEAST_CERTAIN * tally.forecasts
    assert {ForecastState.STARTS, ForecastState.RUNS, ForecastState.WAITS} <= tally.certain.keys()


def example(folder: Path) -> Path:
    """Write the example of the documentation."""
    text = (ROOT / "docs" / "simulate.md").read_text()
    path = folder / "two-teams.yaml"
    path.write_text(text.split("```yaml\n", 1)[1].split("```", 1)[0])
    return path


def test_the_example_of_the_documentation_holds_and_is_drawn(
    session: ReplaySession, state_home: Path, tmp_path: Path
) -> None:
    page = tmp_path / "timeline.html"
    command = ("simulate", str(example(tmp_path)), "--name", CLUSTER, "--out", str(page))
    printed = require(trainyard(*command, env=environment(state_home)))
    assert "5 expectations hold" in printed
    assert "<svg" in page.read_text()
    assert session.running


def test_an_expectation_that_does_not_hold_exits_1_with_what_was_seen(
    session: ReplaySession, state_home: Path, tmp_path: Path
) -> None:
    path = example(tmp_path)
    document = yaml.safe_load(path.read_text())
    document["expect"] = [{"at": "1h", "job": "language", "nodes": 3}]
    document["events"] = []
    path.write_text(yaml.safe_dump(document))
    result = trainyard("simulate", str(path), "--name", CLUSTER, "-o", "json", env=environment(state_home))
    assert result.returncode == 1
    answer = json.loads(result.stdout)
    assert answer["ok"] is False
    failed = [each for each in answer["expectations"] if not each["holds"]]
    assert any(each["expected"] == "job language on 3 nodes" and each["observed"].startswith("4 on") for each in failed)
