"""How long the scheduler must be quiet."""

from __future__ import annotations

import pytest

from trainyard.local.simulate.rest import sessions_at_rest


def test_without_preemption_an_eviction_shows_within_four_sessions() -> None:
    assert sessions_at_rest() == sessions_at_rest(1) == 4


@pytest.mark.parametrize("queues", [2, 3, 5, 20])
def test_a_gang_that_preempts_in_one_of_so_many_sessions_is_hardly_ever_missed(queues: int) -> None:
    sessions = sessions_at_rest(queues)
    assert (1 - 1 / queues) ** sessions <= 1e-6 < (1 - 1 / queues) ** (sessions - 1)
