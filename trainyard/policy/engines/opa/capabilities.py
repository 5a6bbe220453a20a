"""Built-in functions that rules may use: those whose result depends on the review alone.

A rule of a pull request is evaluated where CI has credentials and a network, so none reads the environment, the
network or a file. `opa run` evaluates any function; the compiler rejects those that its capabilities lack.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError

_HARMLESS: Final = frozenset({"rand.intn", "time.now_ns", "uuid.rfc4122"})
"""Functions that are not deterministic, but read nothing."""
_UNDEFINED: Final = re.compile(r"undefined function (\S+)")
_SECONDS: Final = 60.0
_KEPT: Final = ("TMPDIR", "GOGC", "GOMEMLIMIT", "GOMAXPROCS")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a policy server gets: those of the Go runtime."""
    return {name: value for name, value in variables.items() if name in _KEPT}


def capabilities_file(program: Path, folder: Path, variables: Mapping[str, str]) -> Path:
    """Write the capabilities of rules into a folder, and return the file.

    Parameters
    ----------
    program
        The ``opa`` program.
    folder
        The folder.
    variables
        Environment of the program.
    """
    listed = subprocess.run(  # noqa: S603
        [str(program), "capabilities", "--current"], capture_output=True, env=dict(variables), check=False
    )
    path = folder / "capabilities.json"
    path.write_bytes(_limited(listed.stdout))
    return path


class CapabilityCheck:
    """Compilation of a bundle with limited capabilities as a context manager, in parallel with the start of its server.

    Parameters
    ----------
    program
        The ``opa`` program.
    bundle
        The bundle.
    variables
        Environment of the program.
    """

    def __init__(self, program: Path, bundle: Path, variables: Mapping[str, str]) -> None:
        capabilities = capabilities_file(program, bundle.parent, variables)
        command = ("check", "--bundle", str(bundle), "--capabilities", str(capabilities), "--format", "json")
        self._process = subprocess.Popen(  # noqa: S603
            [str(program), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(variables)
        )

    def __enter__(self) -> CapabilityCheck:
        return self

    def __exit__(self, *error: object) -> None:
        """End the compilation."""
        self._process.kill()
        self._process.communicate()

    def require(self) -> None:
        """Wait for the result.

        Raises
        ------
        TrainyardError
            A rule uses another function; names the rule, the line and the function.
        """
        output, _ = self._process.communicate(timeout=_SECONDS)
        if self._process.returncode:
            findings = _findings(output)
            raise TrainyardError(
                "The rules cannot be evaluated",
                findings=findings,
                fix="use functions that only read the review: neither network nor environment",
            )


def _limited(listed: bytes) -> bytes:
    try:
        capabilities: dict[str, Any] = json.loads(listed)
    except ValueError:
        return b"{}"  # The program does not run, which its start reports.
    capabilities["builtins"] = [
        builtin
        for builtin in capabilities["builtins"]
        if not builtin.get("nondeterministic") or builtin["name"] in _HARMLESS
    ]
    return json.dumps({**capabilities, "allow_net": []}).encode()


def _findings(output: bytes) -> list[Finding]:
    try:
        errors = json.loads(output)["errors"]
    except (ValueError, KeyError, TypeError):
        return [Finding("", " ".join(output.decode(errors="replace").split()))]
    found = []
    for error in errors:
        place = error.get("location") or {}
        undefined = _UNDEFINED.match(str(error.get("message")))
        message = f"{undefined.group(1)} is not available to rules" if undefined else str(error.get("message"))
        found.append(Finding(f"{str(place.get('file', '')).lstrip('/')}:{place.get('row', 1)}", message))
    return found
