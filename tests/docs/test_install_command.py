"""The distribution is trainyard-platform: `trainyard` on the package index belongs to another project."""

from __future__ import annotations

import re
import subprocess

from tests.support import ROOT

FORMER = re.compile(r"pip install[^\n|`]*?['\" ]trainyard(?=[\[=<>~'\"`\s]|$)", re.MULTILINE)
"""An install command that would fetch another project's distribution."""


def test_no_text_installs_the_distribution_of_another_project() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name and not name.startswith("tests/docs/")]
    texts = {path: path.read_bytes().decode(errors="replace") for path in paths if path.is_file()}
    assert [path.relative_to(ROOT).as_posix() for path, text in texts.items() if FORMER.search(text)] == []


def test_former_commands_are_noticed() -> None:
    commands = ("pip install trainyard", "pip install 'trainyard[console]'", "pip install -U trainyard==0.1.0")
    assert all(FORMER.search(command) for command in commands)
    assert not FORMER.search("pip install 'trainyard-platform[console]'")
