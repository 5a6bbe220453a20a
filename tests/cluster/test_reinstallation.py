"""A platform that was destroyed, stopped and installed again runs jobs at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.jobs import lasting, train_job
from tests.conftest import live
from tests.support import environment, require, stack_file, trainyard
from trainyard.policy.engines.vap.facts import policy_facts_in

pytestmark = pytest.mark.cluster


def test_a_platform_that_was_destroyed_is_made_again_and_runs_a_job(
    state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("again"), "again")
    file = ("--config-file", str(config))
    try:
        require(trainyard("quickstart", *file, env=env))
        again = live("again", config, env)
        require(again.trainyard("destroy", "--yes", *file))
        assert policy_facts_in(again.get("namespace", "kube-system")["metadata"].get("annotations")) == {}
        require(again.trainyard("up", "--yes", *file))
        require(trainyard("cluster", "down", "--name", "again", env=env))
        assert "Complete" in require(trainyard("quickstart", *file, env=env))
        require(trainyard("cluster", "down", "--name", "again", env=env))
        require(trainyard("cluster", "up", "--name", "again", env=env))
        body = train_job("first", "vision", "torch-distributed", nodes=1, runtimePatches=[lasting("1s")])
        require(again.apply(body))
        # JobSet's leader and the simulated nodes wait until the leases of those before them have ended.
        again.condition("first", "vision", "Complete")
    finally:
        trainyard("cluster", "down", "--name", "again", "--delete", env=env)
