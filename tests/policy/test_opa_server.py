"""A policy server that does not come up says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("error: a.rego:5: unexpected else keyword\n\telse := null\n\t^\n", "error: a.rego:5: unexpected else keyword"),
        ("first\nno room\n", "no room"),
        ("", "its log is empty"),
    ],
)
def test_a_server_that_ends_says_why(tmp_path: Path, said: str, shown: str) -> None:
    program = tmp_path / "opa"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(TrainyardError) as raised, OpaServer(lambda: program, build_bundle()):
        pass
    assert str(raised.value).splitlines()[0] == f"The policy server did not start: {shown}"
