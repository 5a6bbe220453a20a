from __future__ import annotations

from trainyard.controller.trainer_status.rate_limit import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_empties_and_refills_and_keys_do_not_share() -> None:
    clock = Clock()
    limit: RateLimit[str] = RateLimit(2, 3, clock=clock)
    assert [limit.take("a") for _ in range(4)] == [True, True, True, False]
    assert limit.exhausted("a")
    assert limit.take("b")
    clock.now += 0.5
    assert [limit.take("a") for _ in range(2)] == [True, False]
    clock.now += 1000
    assert [limit.take("a") for _ in range(4)] == [True, True, True, False]


def test_memory_is_bounded() -> None:
    limit: RateLimit[int] = RateLimit(1, 1, clock=Clock())
    for key in range(20_000):
        assert limit.take(key)
    assert len(limit._buckets) == 10_000
    assert not limit.take(19_999)
