"""The examples under a strict type checker, as their authors would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if (path / "__main__.py").is_file())


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check copies of the examples that name the components as the clone does, with the cache of `make lint`."""
    for name in EXAMPLES:
        text = (ROOT / "examples" / name / "__main__.py").read_text()
        assert "trainyard.components" in text
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "__main__.py").write_text(text.replace("trainyard.components", "components"))
    path = os.pathsep.join(map(str, (folder, ROOT / "tests" / "components" / "stand_ins")))
    packages = [argument for name in EXAMPLES for argument in ("-p", name)]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *packages],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_examples_have_no_type_errors(tmp_path: Path) -> None:
    result = check(tmp_path)
    assert result.returncode == 0, result.stdout
    assert f"no issues found in {2 * len(EXAMPLES)} source files" in result.stdout
