"""`up` evaluates the admission rules, also without a preview."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard.checks.finding import Finding
from trainyard.platform.deploy import operations
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.platform.deploy.engine_run import EngineRun
from trainyard.progress import SilentProgress
from trainyard.settings.stack_loader import parse_stack

ADVICE = Finding("TrainJob/a", "QUE-002 advisory")


class Engine:
    """Records the policy packs of an update, which has findings."""

    def __init__(self) -> None:
        self.packs: list[list[str]] = []
        self.events = EventLog(None)

    def up(self, *, policy_packs: list[str], **options: Any) -> None:
        self.packs.append([Path(each).name for each in policy_packs])
        self.events.advice.append(ADVICE)

    def preview(self, **options: Any) -> None: ...


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()

    @contextmanager
    def operation(*arguments: Any, **options: Any) -> Iterator[Any]:
        yield EngineRun(engine, engine.events, lambda line: None)  # type: ignore[arg-type]

    async def counted(*arguments: Any) -> None: ...

    cluster = SimpleNamespace(access=lambda: None, sync_nodes=lambda fabric: None)
    monkeypatch.setattr(operations, "provider", lambda *arguments: cluster)
    monkeypatch.setattr(operations, "engine_run", operation)
    monkeypatch.setattr(operations, "await_quotas", counted)
    monkeypatch.setattr(operations, "refresh_selected", lambda *arguments: [])
    monkeypatch.setattr(operations.Toolchain, "require", lambda *arguments: None)
    return engine


@pytest.mark.parametrize(("rules", "packs"), [(True, ["pack"]), (False, [])])
def test_up_evaluates_the_rules_unless_they_are_off(engine: Engine, packs: list[str], *, rules: bool) -> None:
    settings = parse_stack({"cluster": {"provider": "embedded"}, "policies": {"preview": rules}}, source="test")
    result = operations.up(settings, "local", Path("Pulumi.local.yaml"), SilentProgress())
    assert engine.packs == [packs]
    assert result.advice == (ADVICE,)


def test_the_hypernodes_that_an_update_writes_afterwards_are_named(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "refresh_selected", lambda *arguments: ["ra", "rb"])
    settings = parse_stack({"cluster": {"provider": "embedded"}}, source="test")
    result = operations.up(settings, "local", Path("Pulumi.local.yaml"), SilentProgress())
    written = "HyperNodes ra, rb were written after the update, so that Volcano reads their nodes again"
    assert result.notes == (written,)


def test_a_preview_names_the_hypernodes_that_the_update_will_write(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = {"name": "ra", "nodes": {"matchLabels": {"pod": "a"}, "count": 2}}
    settings = parse_stack(
        {"cluster": {"provider": "embedded"}, "fabric": {"tierNames": ["rack"], "domains": [domain]}}, source="test"
    )
    result = operations.preview(settings, "local", Path("Pulumi.local.yaml"), SilentProgress())
    assert result.notes == ("HyperNodes ra are written after the update, so that Volcano reads their nodes again",)
    alone = operations.preview(settings, "local", Path("Pulumi.local.yaml"), SilentProgress(), no_cluster=True)
    assert alone.notes == ()
