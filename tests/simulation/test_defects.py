from __future__ import annotations

import pytest

from tests.simulation.defects import DEFECTS, seeded
from tests.simulation.histories import drawn, played

_HISTORIES = 150


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(name: str) -> None:
    with seeded(name):
        found = next((seed for seed in range(_HISTORIES) if played(drawn(seed, DEFECTS[name][1]))), None)
    assert found is not None, f"none of {_HISTORIES} histories shows that {name}"
