"""What a large fleet asks of the embedded control plane."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.local.cluster.controlplane import CONTROL_PLANE_PROGRAMS
from trainyard.local.cluster.sizing import CONTROL_PLANE_MEMORY, grace_seconds, lease_seconds, memory_limit, size_class

NODES = st.integers(min_value=0, max_value=200_000)


@pytest.mark.parametrize(("nodes", "room"), [(0, 0), (200, 0), (201, 500), (500, 500), (501, 1000), (5000, 5000)])
def test_fleets_are_classified_in_steps(nodes: int, room: int) -> None:
    assert size_class(nodes) == room


@given(NODES, NODES)
def test_a_larger_fleet_never_gets_less(one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert size_class(small) <= size_class(large)
    for program in CONTROL_PLANE_PROGRAMS:
        assert mebibytes(program, small) <= mebibytes(program, large)


@given(NODES)
def test_nodes_of_any_fleet_renew_often_enough_and_not_too_often(nodes: int) -> None:
    lease = lease_seconds(nodes)
    assert grace_seconds(nodes) > lease
    assert nodes / (lease / 4) <= 60


def test_a_small_fleet_behaves_as_kubernetes_does() -> None:
    assert (lease_seconds(0), grace_seconds(0)) == (40, 50)


def mebibytes(program: str, nodes: int) -> int:
    return int(memory_limit(*CONTROL_PLANE_MEMORY[program], nodes).removesuffix("MiB"))
