"""Errors of the engine and the CLI as errors of an operation, with findings and fixes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.platform.deploy.workspace import StackProgram

_HALF_WRITTEN = "failed to load checkpoint: EOF"
"""A file of attributes that a killed run has left half-written: `remove_incomplete_attributes`."""


@contextmanager
def translate_errors(operation: str, stack: str, events: EventLog, program: StackProgram, log: Path) -> Iterator[None]:
    """Raise an error of the user in place of one of the engine.

    Parameters
    ----------
    operation, stack
        Operation and stack, for the message.
    events
        The events of the run.
    program
        The program of the run, whose own error comes first.
    log
        Pulumi's output.

    Raises
    ------
    TrainyardError
        Another run holds the stack, or the run failed: names each failed resource.
    """
    from pulumi.automation.errors import CommandError, ConcurrentUpdateError

    try:
        yield
    except ConcurrentUpdateError as error:
        raise TrainyardError(
            f"Another run holds the stack {stack}; this {operation} changed nothing",
            findings=_printed_errors(str(error)),
            fix="wait until it has finished, then run the command again; if it no longer runs, `pulumi cancel` first",
        ) from error
    except CommandError as error:
        if program.error is not None:
            raise program.error from error
        findings = [_with_fix(finding) for finding in events.findings or _printed_errors(str(error))]
        raise TrainyardError(
            f"{operation} of stack {stack} failed" + (f" at {len(findings)} resources" if len(findings) > 1 else ""),
            findings=findings,
            fix=f"correct this and run the command again, which continues from here (Pulumi's output: {log})",
        ) from error


def _printed_errors(output: str) -> list[Finding]:
    """Return the errors that the CLI printed, for failures before the first event."""
    found = [line.rpartition("error: ")[2].strip() for line in output.splitlines() if "error: " in line]
    return [Finding("", message) for message in dict.fromkeys(found)]


def _with_fix(finding: Finding) -> Finding:
    if not finding.fix and _HALF_WRITTEN in finding.message:
        return Finding(finding.path, finding.message, "run `trainyard up`, which repairs what a killed run has left")
    deployments = ((name, program.deployment) for name, program in HOST_PROGRAMS.items() if program.deployment)
    process = next((name for name, deployment in deployments if finding.path.endswith(f"/{deployment}")), None)
    if process is None or finding.fix:
        return finding
    return Finding(finding.path, finding.message, f"see `trainyard cluster logs {process}`")
