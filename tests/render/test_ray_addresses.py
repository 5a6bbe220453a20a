"""The address on which the head of a Ray cluster serves its API."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trainyard.jobs.render.frameworks.ray_scripts import HEAD, NODE

_HEADER = "Iface\tDestination\tGateway\n"


@pytest.mark.parametrize("script", [HEAD, NODE], ids=["head", "node"])
@pytest.mark.parametrize(
    ("routes", "expected"), [(_HEADER + "eth0\t0\t0\n", "0.0.0.0"), (_HEADER, "::"), (None, "0.0.0.0")]
)
def test_the_dashboard_listens_on_the_family_of_the_pod(
    script: str, routes: str | None, expected: str, tmp_path: Path
) -> None:
    if routes is not None:
        (tmp_path / "route").write_text(routes)
    (tmp_path / "ray").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "ray").chmod(0o755)
    ran = script.replace("/proc/net/route", str(tmp_path / "route")).replace("@PORT@", "1").replace("@OPTIONS@", "")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "JOB_COMPLETION_INDEX": "0"}
    ended = subprocess.run(["/bin/sh", "-c", ran, "sh"], env=env, capture_output=True, text=True, check=True)
    assert f"--dashboard-host={expected}" in ended.stdout.splitlines()
