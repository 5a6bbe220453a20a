"""Readiness follows the rules of a kubelet's readiness probe."""

from __future__ import annotations

from trainyard.local.cluster.supervisor.readiness import Readiness


def observed(*answers: bool, failures: int = 3) -> Readiness:
    readiness = Readiness()
    for number, answer in enumerate(answers):
        readiness.observe(float(number), answered=answer, failures=failures)
    return readiness


def test_one_good_answer_makes_ready_and_several_bad_ones_in_a_row_unready() -> None:
    assert not Readiness().ready
    assert not observed(False, False).ready
    assert observed(False, True).ready
    assert observed(True, False, False).ready
    assert not observed(True, False, False, False).ready
    assert observed(True, False, False, True, False, False).ready
    assert observed(True, False, False, False, True).ready


def test_a_ready_container_is_probed_once_a_period_and_any_other_whenever_asked() -> None:
    readiness = observed(False)
    assert readiness.due(0.1, 5)
    readiness.observe(1.0, answered=True, failures=3)
    assert not readiness.due(5.9, 5)
    assert readiness.due(6.0, 5)


def test_a_process_that_ended_is_not_ready() -> None:
    readiness = observed(True)
    readiness.reset()
    assert not readiness.ready
