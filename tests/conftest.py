"""Fixtures shared by the tests that need a real control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.cluster.bypass import stack_settings
from tests.support import LiveCluster, environment, require, stack_file, trainyard

# A slow machine is not a wrong answer.
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")


@pytest.fixture(scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of every cluster that the tests start."""
    return tmp_path_factory.mktemp("state")


def live(name: str, config: Path, env: dict[str, str]) -> LiveCluster:
    exported = json.loads(require(trainyard("cluster", "env", "--name", name, "-o", "json", env=env)))
    return LiveCluster(name, config, env | exported)


@pytest.fixture(scope="session")
def cluster(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane with nothing installed."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("bare"), "bare")
    try:
        require(trainyard("cluster", "up", "--name", "bare", env=env))
        yield live("bare", config, env)
    finally:
        trainyard("cluster", "down", "--name", "bare", "--delete", env=env)


@pytest.fixture(scope="session")
def platform_output() -> dict[str, str]:
    """What the commands that made the platform printed, by command."""
    return {}


@pytest.fixture(scope="session")
def platform(
    state_home: Path, tmp_path_factory: pytest.TempPathFactory, platform_output: dict[str, str]
) -> Iterator[LiveCluster]:
    """A whole platform as `make up` makes it, with a tenant whose queue is small and one that attacks the others."""

    def with_more_tenants(config: dict[str, Any]) -> None:
        queues, tenants = config["trainyard:queues"], config["trainyard:tenants"]
        queues["small"] = {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "8"}}
        tenants["small"] = {"queues": ["small"]}
        stack_settings(config)

    env, config = (
        environment(state_home),
        stack_file(tmp_path_factory.mktemp("platform"), "platform", with_more_tenants),
    )
    try:
        platform_output["quickstart"] = require(trainyard("quickstart", "--config-file", str(config), env=env))
        yield live("platform", config, env)
    finally:
        trainyard("cluster", "down", "--name", "platform", "--delete", env=env)
