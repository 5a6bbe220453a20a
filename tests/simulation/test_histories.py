"""A slice of the histories; `make simulate-controller` plays 100,000."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.api_server import Event
from tests.simulation.histories import History, Step, drawn, played, shortest
from tests.simulation.invariants import Violation
from trainyard.kube.training_kinds import JOB_SETS

_SLICE = 400


@pytest.mark.slow
def test_a_slice_of_the_histories_breaks_no_invariant() -> None:
    """In a process of its own: the order of sets is part of a history."""
    options = ["--seeds", str(_SLICE), "--processes", "1"]
    command = [sys.executable, "-m", "tests.simulation", *options]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_seed_gives_one_history() -> None:
    assert drawn(4711) == drawn(4711)
    assert drawn(4711).steps != drawn(4712).steps


@pytest.mark.slow
def test_a_seed_gives_the_same_writes_at_the_same_times_in_every_process() -> None:
    script = (
        "from tests.simulation.histories import drawn, played\n"
        "played(drawn(30), listener=lambda time, event: print(f'{time:.9f} {event.call}'))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", script]
    heard = {subprocess.check_output(command, env=environment, text=True) for _ in range(3)}
    assert len(heard) == 1
    assert heard.pop().count("\n") > 100


def test_a_quiet_history_holds() -> None:
    steps = (Step("create TrainJob", "a", ("gang", False, None)), Step("advance", value=5.0))
    assert played(History(1, 1, steps)) == []


def test_a_late_write_of_a_dead_process_does_not_kill_its_successor() -> None:
    steps = (
        Step("advance", value=0.079),
        Step("crash after writes", value=5),
        Step("begin", value="JobSet's webhook is away"),
        Step("begin", value="writes arrive late"),
        Step("advance", value=0.63),
        Step("delete runtime", value="plain"),
        Step("advance", value=3.671),
        Step("start"),
        Step("advance", value=0.864),
        Step("delete and create TrainJob", "b", ("gang", False, None)),
        Step("advance", value=1.912),
        Step("resume TrainJob", "b"),
        Step("advance", value=8.581),
        Step("create TrainJob", "a", ("short-lived", False, None)),
        Step("advance", value=0.186),
        Step("cut watches"),
    )
    assert played(History(4683, 1, steps)) == []


def test_a_create_that_arrives_after_the_job_set_of_another_controller_does_not_run() -> None:
    """Sent before that JobSet was known, which lacked the label; answered on time, it would have been a 409."""
    steps = (
        Step("hold back create", value=76.7),
        Step("advance", value=4.8),
        Step("hand over", "a", ("plain", False)),
        Step("advance", value=63.8),
        Step("delete TrainJob", "a", "Background"),
        Step("advance", value=30.0),
    )
    assert played(History(22987, 1, steps)) == []


def test_a_finalizer_that_could_not_be_removed_while_a_webhook_was_away_is_removed_in_the_end() -> None:
    steps = (
        Step("create TrainJob", "b", ("short-lived", True, None)),
        Step("advance", value=64.1),
        Step("hold JobSet", "b", 1.6),
        Step("begin", value="JobSet's webhook is away"),
        Step("advance", value=45.0),
        Step("complete and resume TrainJob", "b"),
    )
    assert played(History(71322, 1, steps)) == []


def test_a_job_whose_job_set_was_deleted_at_once_may_end_while_its_repeated_create_arrives() -> None:
    steps = (
        Step("create TrainJob", "b", ("gang", False, None)),
        Step("advance", value=0.286),
        Step("delete JobSet", "b", "Background"),
        Step("create of JobSet", "b"),
    )
    assert played(History(71234, 1, steps)) == []


def test_a_history_is_shortened_to_the_steps_that_matter() -> None:
    steps = tuple(Step("advance", value=float(number)) for number in range(20))

    def play(history: History) -> list[Violation]:
        broken = {3.0, 11.0} <= {step.value for step in history.steps}
        return [Violation("it holds", "", 0.0)] if broken else []

    found = shortest(History(1, 2, steps), "it holds", play)
    assert ([step.value for step in found.steps], found.replicas) == ([3.0, 11.0], 1)


def test_a_create_that_arrives_after_the_end_of_its_job_does_not_run() -> None:
    """Held in a half-open connection while its repetition ran, ended, and was deleted by its TTL."""
    steps = (
        Step("hold back create", value=45.0),
        Step("create TrainJob", "a", ("short-lived", False, None)),
        Step("advance", value=33.0),
        Step("complete JobSet", "a"),
        Step("advance", value=60.0),
    )
    verbs: list[str] = []

    def note(_: float, event: Event) -> None:
        if event.last.kind.resource == JOB_SETS and (event.old is None or event.new is None):
            verbs.append(event.call.verb)

    assert played(History(1, 1, steps), note) == []
    assert verbs[-2:] == ["create", "delete"]


def test_a_create_that_arrives_after_its_jobs_only_run_was_lost_does_not_run() -> None:
    steps = (
        Step("hold back create", value=45.0),
        Step("create TrainJob", "a", ("plain", False, None)),
        Step("advance", value=44.0),
        Step("kill"),
        Step("delete JobSet", "a"),
        Step("advance", value=3.0),
        Step("start"),
        Step("advance", value=20.0),
    )
    assert played(History(1, 1, steps)) == []


def test_a_job_ends_whose_job_set_was_being_deleted_without_a_label_while_no_leader_saw_it() -> None:
    steps = (
        Step("create TrainJob", "a", ("plain", False, None)),
        Step("advance", value=5.0),
        Step("kill"),
        Step("unlabel JobSet", "a"),
        Step("hold JobSet", "a", 30.0),
        Step("delete JobSet", "a", "Foreground"),
        Step("start"),
        Step("advance", value=130.0),
    )
    assert played(History(1, 1, steps)) == []


def test_a_webhook_that_removes_the_label_hides_no_job() -> None:
    steps = (
        Step("begin", value="the label is removed"),
        Step("create TrainJob", "a", ("plain", False, None)),
        Step("advance", value=5.0),
        Step("suspend TrainJob", "a"),
        Step("advance", value=130.0),
        Step("resume TrainJob", "a"),
        Step("complete JobSet", "a"),
        Step("advance", value=130.0),
    )
    assert played(History(1, 1, steps)) == []
