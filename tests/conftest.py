"""Fixtures shared by the tests that need a real control plane."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

from tests.cluster.bypass import stack_settings
from tests.support import LiveCluster, environment, in_process, require, stack_file, trainyard

pytest_plugins = ("tests.timing", "tests.workers")

# A slow machine is not a wrong answer.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")


_LAST_USER = pytest.StashKey[dict[str, str]]()
"""The last test that uses a fixture, by the name of the fixture."""

_RUNNING = pytest.StashKey[dict[str, ExitStack]]()
"""What stops a cluster, by the name of its fixture."""


def pytest_configure() -> None:
    gc.disable()  # Collection makes a million objects that stay.


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # A test makes many objects and few cycles.
    gc.enable()
    session.config.stash[_RUNNING] = {}
    session.config.stash[_LAST_USER] = {
        name: item.nodeid for item in session.items for name in getattr(item, "fixturenames", ())
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Stop a cluster after its last test: an idle one slows down all that come after."""
    yield
    running, last_user = item.config.stash[_RUNNING], item.config.stash[_LAST_USER]
    for name in [name for name in running if last_user.get(name) == item.nodeid]:
        running[name].close()


@contextmanager
def until_its_last_test(request: pytest.FixtureRequest) -> Iterator[ExitStack]:
    """Give a fixture of the session what is to be called when its last test is over."""
    from tests.workers import check_unit  # a plugin: pytest imports it first

    with ExitStack() as ends:
        assert request.fixturename is not None
        check_unit(request.fixturename)
        request.config.stash[_RUNNING][request.fixturename] = ends
        yield ends


@pytest.fixture(scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of every cluster that the tests start, in all workers: clusters then never share a port."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "state"
    folder.mkdir(exist_ok=True)
    return folder


def live(name: str, config: Path, env: dict[str, str]) -> LiveCluster:
    exported = json.loads(require(in_process("cluster", "env", "--name", name, "-o", "json", env=env)))
    return LiveCluster(name, config, env | exported)


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """A control plane with nothing installed."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("bare"), "bare")
    with until_its_last_test(request) as ends:
        ends.callback(trainyard, "cluster", "down", "--name", "bare", "--delete", env=env)
        require(trainyard("cluster", "up", "--name", "bare", env=env))
        yield live("bare", config, env)


@pytest.fixture(scope="session")
def platform_output() -> dict[str, str]:
    """What the commands that made the platform printed, by command."""
    return {}


@pytest.fixture(scope="session")
def platform(
    request: pytest.FixtureRequest,
    state_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    platform_output: dict[str, str],
) -> Iterator[LiveCluster]:
    """A whole platform as `make up` makes it, with a tenant whose queue is small and one that attacks the others."""

    def checked(config: dict[str, Any]) -> None:
        with_more_tenants(config)
        config["trainyard:policies"]["preview"] = True

    config = stack_file(tmp_path_factory.mktemp("platform"), "platform", checked)
    with until_its_last_test(request) as ends:
        found, platform_output["quickstart"] = installed("platform", config, state_home, ends)
        document = yaml.safe_load(config.read_text())
        document["config"]["trainyard:policies"]["preview"] = False  # the first run has checked these objects
        config.write_text(yaml.safe_dump(document, sort_keys=False))
        yield found


@pytest.fixture(scope="session")
def changing_platform(
    request: pytest.FixtureRequest, state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """A platform like the other one, whose settings and certificates tests change; each puts them back."""
    config = stack_file(tmp_path_factory.mktemp("changing"), "changing", with_more_tenants)
    with until_its_last_test(request) as ends:
        yield installed("changing", config, state_home, ends)[0]


def with_more_tenants(config: dict[str, Any]) -> None:
    queues, tenants = config["trainyard:queues"], config["trainyard:tenants"]
    queues["small"] = {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "8"}}
    tenants["small"] = {"queues": ["small"]}
    stack_settings(config)


def installed(name: str, config: Path, state_home: Path, ends: ExitStack) -> tuple[LiveCluster, str]:
    """Install a platform; return it and what the command printed."""
    env = environment(state_home)
    ends.callback(trainyard, "cluster", "down", "--name", name, "--delete", env=env)
    output = require(trainyard("quickstart", "--config-file", str(config), env=env))
    return live(name, config, env), output
