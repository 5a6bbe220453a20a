"""The Containerfile copies what the wheel of the controller contains."""

from __future__ import annotations

import re
import tomllib

from tests.support import ROOT

WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]


def test_everything_that_the_wheel_includes_is_copied() -> None:
    lines = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text())
    copied = {source for line in lines for source in line.split()}
    assert {*WHEEL["force-include"], "trainyard", "pyproject.toml"} <= copied
