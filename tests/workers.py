"""Which tests share a worker process: those that share a cluster, one after the other.

Tests on clusters mostly wait, so three workers run them side by side on two cores. The files that share a cluster are
one unit of work, every other file is a unit of its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED: Final = {
    "platform": (
        "tests/cluster/test_admission_restarts.py",
        "tests/cluster/test_bypass.py",
        "tests/cluster/test_bypass_audit.py",
        "tests/cluster/test_bypass_outage.py",
        "tests/cluster/test_console.py",
        "tests/cluster/test_explain.py",
        "tests/cluster/test_explain_empty_platform.py",
        "tests/cluster/test_frameworks.py",
        "tests/cluster/test_jobs.py",
        "tests/cluster/test_jobset_restart.py",
        "tests/cluster/test_kubectl_get.py",
        "tests/cluster/test_metrics.py",
        "tests/cluster/test_policy_gate.py",
        "tests/cluster/test_pods.py",
        "tests/cluster/test_progress.py",
        "tests/cluster/test_quickstart.py",
        "tests/cluster/test_replicas.py",
        "tests/cluster/test_surface_live.py",
        "tests/cluster/test_typed_clients.py",
        "tests/cluster/test_usage.py",
        "tests/cluster/test_webhook_clients.py",
        "tests/convert/test_cluster.py",
    ),
    "changing_platform": tuple(
        f"tests/cluster/test_{name}.py"
        for name in ("certificate_rotation", "queue_changes", "runtime_life", "scheduler_rollout")
    ),
    "cluster": (
        "tests/api/test_crds_installed.py",
        "tests/api/test_kubernetes_fields.py",
        "tests/policy/equivalence/test_equivalence.py",
        "tests/policy/test_cases_live.py",
        "tests/policy/test_exemptions_live.py",
        "tests/pulumi/test_plain.py",
        "tests/pulumi/test_provider_components.py",
        "tests/queues/test_webhook_corpus.py",
    ),
    "kueue_platform": ("tests/kueue/test_lifecycle.py", "tests/kueue/test_multikueue.py"),
    "control_plane": tuple(
        sorted(f"tests/faults/{file.name}" for file in (Path(__file__).parent / "faults").glob("test_*.py"))
    ),
}
"""The files that use a cluster of tests/conftest.py or of a conftest of theirs, by the name of its fixture."""

_WHOLE: Final = re.compile(r"^pytestmark = pytest\.mark\.(cluster|slow|real)$", re.MULTILINE)
"""Mark of all tests of a file."""
_UNITS: Final = {file: fixture for fixture, files in SHARED.items() for file in files}
_FIRST: Final = (
    "platform",
    "changing_platform",
    "tests/cluster/test_scenarios.py",
    "cluster",
    "control_plane",
    "tests/cluster/test_fabric.py",
    "tests/cluster/test_upgrade.py",
    "tests/cluster/test_ownership.py",
    "tests/cluster/test_takeover.py",
    "tests/cluster/test_ip_family.py",
    "tests/cluster_provider/test_embedded_cluster.py",
    "tests/compatibility/test_upstream.py",
    "tests/cluster/test_resume.py",
    "tests/cluster/test_release_upgrade.py",
    "kueue_platform",
    "tests/ci/test_kit.py",
    "tests/pulumi/test_preview_without_cluster.py",
    "tests/simulation/test_histories.py",
    "tests/simulation/test_defects.py",
    "tests/components/test_stack.py",
    "tests/components/test_retirement.py",
    "tests/console/test_command.py",
    "tests/cli/test_help.py",
    "tests/components/test_release_changes.py",
    "tests/console/test_views.py",
)
"""The units that take longest; they start first, so that all workers end at about the same time."""
_WORKERS: Final = 3
_MEMORY: Final = 3 << 30
"""Bytes that a cluster with everything on it needs, and the tests beside it."""


def unit_of(nodeid: str) -> str:
    """Return the unit of work that a test belongs to."""
    file = nodeid.partition("::")[0]
    return _UNITS.get(file, file)


def check_unit(fixture: str) -> None:
    """Fail if the current test uses a shared cluster but is not in its unit: its worker would start another one."""
    file = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    assert file in SHARED[fixture], f"{file} uses fixture {fixture}; add it to SHARED in tests/workers.py"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the workers: one more than cores for the fast tests, three for those on clusters, none for named files."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return 0
    if not _on_clusters(config):
        return 1 + (os.cpu_count() or 1)  # a third of their time is waiting
    workers = min(_WORKERS, psutil.virtual_memory().total // _MEMORY)
    return workers if workers > 1 else 0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files in which no test is chosen: every worker would import them."""
    expression = config.option.markexpr
    if config.args_source is pytest.Config.ArgsSource.ARGS or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    if expression == "not cluster and not slow and not real":
        return True if _WHOLE.search(text) else None
    chosen = expression.split(" or ")
    marked = any(f"pytest.mark.{mark}" in text for mark in chosen)
    return None if marked or not {*chosen} <= {"cluster", "slow", "real"} else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {unit: rank for rank, unit in enumerate(_FIRST)}
    items.sort(key=lambda item: ranks.get(unit_of(item.nodeid), len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    config.option.loadscopereorder = False  # keep the order of the items
    return _Units(config, log) if _on_clusters(config) else None


def _on_clusters(config: pytest.Config) -> bool:
    return not config.option.markexpr.startswith("not cluster")


class _Units(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
