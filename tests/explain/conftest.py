"""The cluster of most tests: what the recorded platform has before its jobs."""

from __future__ import annotations

import pytest

from tests.explain.recorded_clusters import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
