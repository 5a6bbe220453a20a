"""How long the scheduler must be quiet."""

from __future__ import annotations

import pytest

from trainyard.local.simulate.idle_detection import idle_sessions


def test_without_preemption_an_eviction_shows_within_four_sessions() -> None:
    assert idle_sessions() == idle_sessions(1) == 4


@pytest.mark.parametrize("queues", [2, 3, 5, 20])
def test_a_gang_that_preempts_in_one_of_so_many_sessions_is_hardly_ever_missed(queues: int) -> None:
    sessions = idle_sessions(queues)
    assert (1 - 1 / queues) ** sessions <= 1e-6 < (1 - 1 / queues) ** (sessions - 1)
