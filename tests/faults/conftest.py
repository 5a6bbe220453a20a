"""A control plane for all fault tests, and controllers behind proxies of their own."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import until_its_last_test
from tests.faults.bench import Bench, bench, kubeconfig
from tests.faults.clock import Clock
from tests.faults.processes import Controller
from tests.faults.proxy import Proxy
from tests.faults.scene import Scene, fixpoint

_PASSED = pytest.StashKey[bool]()
_FULL = os.environ.get("TRAINYARD_FAULTS") == "all"
exhaustive = pytest.mark.skipif(not _FULL, reason="only in `make test-faults`")
_SCENES = itertools.count()


@dataclass
class Replica:
    """A controller process and its link to the API server."""

    controller: Controller
    proxy: Proxy
    token_file: Path


Launch = Callable[..., Replica]


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The control plane."""
    with until_its_last_test(request) as ends:
        yield ends.enter_context(bench(tmp_path_factory.mktemp("bench")))


@contextmanager
def launching(control_plane: Bench, folder: Path, replicas: list[Replica]) -> Iterator[Launch]:
    """Start controllers, listed in ``replicas``; all are ended, and their logs checked, when the block ends."""
    with ExitStack() as ends:

        def launch(name: str = "controller", *, start: bool = True, ready: bool = True, **options: Any) -> Replica:
            token_file = folder / f"{name}.token"
            token_file.write_text(control_plane.token())
            contexts = control_plane.admin_context(), control_plane.anonymous_context()
            proxy = ends.enter_context(Proxy(control_plane.url, *contexts))
            file = kubeconfig(folder / f"{name}.kubeconfig", proxy.url, token_file)
            controller = Controller(folder, file, name=name, **options)
            ends.callback(controller.kill)
            replicas.append(Replica(controller, proxy, token_file))
            if start:
                controller.start(ready=ready)
            return replicas[-1]

        yield launch
    for replica in replicas:
        assert "Traceback" not in replica.controller.text, replica.controller.text[-6000:]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def settled(request: pytest.FixtureRequest, scene: Scene, replicas: Sequence[Replica]) -> None:
    """Check that the controllers of a test that passed write nothing more, unless the test says why they do."""
    marked = request.node.get_closest_marker("unsettled") or (
        not _FULL and request.node.get_closest_marker("settles_slowly")
    )
    alive = [replica.proxy for replica in replicas if replica.controller.alive]
    if alive and not marked and request.node.stash.get(_PASSED, False):
        fixpoint(scene, *alive)


@pytest.fixture
def launch(
    control_plane: Bench, tmp_path: Path, unstarted: Replica, scene: Scene, request: pytest.FixtureRequest
) -> Iterator[Launch]:
    """Start controllers of one test; no other one acts meanwhile."""
    unstarted.controller.kill()
    replicas: list[Replica] = []
    with launching(control_plane, tmp_path, replicas) as start:
        yield start
        if _FULL:  # It takes half a minute in all; in `make test`, most of these tests check it themselves.
            settled(request, scene, replicas)


@pytest.fixture(scope="module")
def unstarted(control_plane: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """The controller that tests share, not started yet."""
    with launching(control_plane, tmp_path_factory.mktemp("shared"), []) as start:
        yield start("shared", start=False)


@pytest.fixture
def shared(unstarted: Replica, control_plane: Bench, scene: Scene, request: pytest.FixtureRequest) -> Iterator[Replica]:
    """One controller for the tests of a module, where the fault is in the objects."""
    if not unstarted.controller.alive:
        # A test may have made the ServiceAccount again, which ends every token of before.
        unstarted.token_file.write_text(control_plane.token())
        unstarted.controller.start()
    yield unstarted
    settled(request, scene, [unstarted])


@pytest.fixture
def scene(control_plane: Bench, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A namespace of the test; the invariants are checked when it ends."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    found = Scene(control_plane, f"{words}-{next(_SCENES)}")
    yield found
    found.close()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(tmp_path, monkeypatch)
