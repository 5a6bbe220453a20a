"""Components that others installed are read before anything is declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.common import existing_components as existing
from components.common.existing_components import check_existing, existing_components
from components.common.target import Target
from components.registry import declarations, image_repositories
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import TransportError
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.installations import InstalledProgram, LiveInstallation
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

ACCESS = ClusterAccess("local", Path("kubeconfig"), "local")


def settings(**sections: Any) -> StackSettings:
    return parse_stack({"cluster": {"provider": "embedded"}, **sections}, source="stack")


def check(chosen: StackSettings) -> None:
    check_existing(chosen, declarations(), ACCESS, Target.of(chosen, ACCESS, image_repositories()))


def answering(monkeypatch: pytest.MonkeyPatch, answer: LiveInstallation | Exception) -> list[str]:
    """Answer reads of the cluster; return the warnings."""

    def run(_access: Any, _work: Any) -> dict[str, LiveInstallation]:
        if isinstance(answer, Exception):
            raise answer
        return {answer.namespace: answer}

    warnings: list[str] = []
    monkeypatch.setattr(existing, "run_with_client", run)
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    return warnings


def test_a_stack_that_installs_everything_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, AssertionError("read"))
    check(settings())
    assert existing_components(settings(trainer={"install": "existing"}), declarations()) == []


def test_what_is_missing_is_an_error_and_what_is_unverified_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(jobset={"install": "existing", "featureGates": ["RestartJob"]})
    warnings = answering(monkeypatch, LiveInstallation("jobset-system", (InstalledProgram("manager", "jobset:main"),)))
    with pytest.raises(TrainyardError, match="gate RestartJob is not on in Deployment jobset-system/manager"):
        check(chosen)
    assert any("the version of jobset is unknown" in each for each in warnings)
    answering(monkeypatch, LiveInstallation("jobset-system"))
    with pytest.raises(TrainyardError, match="no Deployment in namespace jobset-system runs jobset"):
        check(chosen)


def test_an_unreadable_cluster_is_an_error_in_up_and_a_warning_in_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(jobset={"install": "existing"})
    warnings = answering(monkeypatch, TransportError("refused"))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    check(chosen)
    assert "nothing is known about it: refused" in warnings[0]
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(TrainyardError, match="jobset"):
        check(chosen)
