"""The wheel: components under their name there, with the files that they read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.registry import declarations
from tests.components import wheel

pytestmark = pytest.mark.slow

PROGRAM = """
import importlib.util, json
from trainyard import upstream
from trainyard.components import registry, stack
from trainyard.components.common.offline import OFFLINE_KUBECONFIG
print(json.dumps({
    "clone": importlib.util.find_spec("components") is not None,
    "components": list(registry.declarations()),
    "modules": sorted({each.install.__module__ for each in registry.declarations().values()}),
    "lock": str(upstream.lock_file()),
    "kubeconfig": OFFLINE_KUBECONFIG.is_file(),
    "crds": len(upstream.documents("volcano", "1.14.1", registry.declarations()["volcano"].manifests[0])),
}))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_the_components_under_its_own_name(packages: Path, tmp_path: Path) -> None:
    result = wheel.run(packages, PROGRAM, tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert not found["clone"]
    assert found["components"] == list(declarations())
    assert found["modules"] == sorted(f"trainyard.components.{name}" for name in declarations())
    assert found["lock"] == str(packages / "trainyard" / "components" / "upstream.lock")
    assert found["kubeconfig"]
    assert found["crds"] == 1
