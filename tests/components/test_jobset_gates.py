"""Feature gates of JobSet: from the setting to the manager's configuration, the Platform and rendering."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from components.jobset import _configuration, _gates_annotation
from trainyard.api import Platform
from trainyard.errors import TrainyardError
from trainyard.jobs.render.platform_facts import context_of
from trainyard.jobs.render.result import RenderContext
from trainyard.policy.stack_objects import platform_object
from trainyard.settings.sections.jobset import JobSetSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

BOTH = ["InPlaceRestart", "RestartJob"]


def stack(**jobset: Any) -> StackSettings:
    return parse_stack({"cluster": {"provider": "embedded"}, "jobset": jobset}, source="test")


def test_gates_reach_the_manager_the_platform_and_rendering() -> None:
    settings = stack(featureGates=BOTH)
    text = _configuration(JobSetSettings.of(settings))["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(text)["featureGates"] == dict.fromkeys(BOTH, True)
    assert _gates_annotation(JobSetSettings.of(settings)) == {
        "trainyard.dev/feature-gates": "InPlaceRestart,RestartJob"
    }
    platform = platform_object(settings)
    assert platform["spec"]["jobSetFeatureGates"] == BOTH
    context = context_of(Platform.from_body(platform), RenderContext())
    assert context.job_set_gates == frozenset(BOTH)


def test_without_gates_the_manager_is_configured_as_before() -> None:
    settings = stack()
    assert "featureGates" not in _configuration(JobSetSettings.of(settings))["data"]["controller_manager_config.yaml"]
    assert _gates_annotation(JobSetSettings.of(settings)) == {}


def test_a_gate_that_the_version_lacks_is_an_error_where_it_is_installed() -> None:
    with pytest.raises(TrainyardError, match="RestartJob"):
        stack(version="0.11.1", featureGates=["RestartJob"])
    assert JobSetSettings.of(stack(install="existing", version="0.11.1", featureGates=["RestartJob"])).feature_gates
    assert JobSetSettings.of(stack(version="0.11.1", featureGates=["InPlaceRestart"])).feature_gates
