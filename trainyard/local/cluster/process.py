"""Detached processes: start each in its own session, record it, and find it again.

A process is identified by its pid and start time, never by its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

from trainyard.errors import TrainyardError
from trainyard.local.cluster.build_records import require_recorded
from trainyard.local.cluster.folders import write_private

HEARTBEAT = "supervisor.heartbeat"
"""File that the supervisor touches every few seconds."""

NOT_INSTALLED = "not installed"
"""`ProcessRecord.waiting` while no Deployment needs the program."""

STOPPING = "stopping"
"""`ProcessRecord.waiting` from the stop request until the process has exited."""

MEMORY_VARIABLE = "TRAINYARD_PROGRAM_MEMORY"
"""Variable with a soft memory limit of each Go program, such as 2GiB, in place of its own limit.

Garbage is then collected rarely, which saves a third of the API server's CPU time where memory is plentiful.
"""

_INHERITED = ("HOME", "PATH", "LANG", "TZ", "TMPDIR", "USER", MEMORY_VARIABLE)
_RARE_COLLECTION = "400"
"""Growth of the heap in percent until garbage is collected, below the limit (``GOGC``)."""

_LOG_LIMIT = 20 * 1024 * 1024
_LOG_GENERATIONS = 3
_ERROR = re.compile(r"^[EF]\d{4} |^panic: |\bERROR\b|\bFATAL\b|\bError\b|\"level\":\"(error|fatal)\"")


@dataclass(frozen=True)
class ProcessSpec:
    """A process to run.

    Parameters
    ----------
    name, version
        Name and version of the program.
    command
        Program file and arguments.
    address
        Host and port that it serves, for display.
    log
        Log file for its output.
    environment
        Variables in addition to a minimal environment.
    inputs
        Digest of the files that it reads at its start; a change causes a restart.
    """

    name: str
    version: str
    command: tuple[str, ...]
    log: Path
    address: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    inputs: str = ""

    @property
    def digest(self) -> str:
        """Hash of command, environment and inputs; a change causes a restart."""
        text = json.dumps([self.command, sorted(self.environment.items()), self.inputs])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ProcessRecord:
    """Record of a process, which survives the process that started it.

    Parameters
    ----------
    pid, identity
        The process; `identity` distinguishes it from a later one with the same pid. None while it does not run.
    digest
        `ProcessSpec.digest` at its start.
    restarts
        Number of restarts after crashes.
    waiting
        Why it does not run; empty if it should run; `STOPPING` while it stops.
    """

    name: str
    version: str = ""
    address: str = ""
    pid: int | None = None
    identity: str | None = None
    digest: str = ""
    restarts: int = 0
    waiting: str = ""


def identity(pid: int) -> str | None:
    """Return a value unique among all processes with this pid; None if the process has exited or is a zombie."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            ticks = stat.read_text().rpartition(")")[2].split()[19]
            return f"{boot}:{ticks}"
        return f"{process.create_time():.2f}"
    except (psutil.Error, OSError, IndexError):
        return None


def alive(record: ProcessRecord | None) -> bool:
    """Return whether the process of a record runs; another process with the same pid does not count."""
    return (
        record is not None
        and record.pid is not None
        and record.identity is not None
        and identity(record.pid) == record.identity
    )


def start(spec: ProcessSpec) -> tuple[subprocess.Popen[bytes], ProcessRecord]:
    """Start a process detached from the terminal.

    Raises
    ------
    TrainyardError
        The program cannot be started, or is not what was built.
    """
    require_recorded(Path(spec.command[0]))
    rotate_log(spec.log)
    environment = {key: os.environ[key] for key in _INHERITED if key in os.environ}
    limit = environment.get(MEMORY_VARIABLE)
    collection = {"GOMEMLIMIT": limit, "GOGC": _RARE_COLLECTION} if limit else {}
    try:
        descriptor = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(  # noqa: S603
                spec.command,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                cwd=spec.log.parent,
                env={**environment, **spec.environment, **collection},
            )
        finally:
            os.close(descriptor)
    except OSError as error:
        raise TrainyardError(
            f"{spec.name} cannot be started: {spec.command[0]}: {error.strerror}",
            fix="run `trainyard cluster toolchain` to obtain the programs again",
        ) from error
    return process, ProcessRecord(
        spec.name, spec.version, spec.address, process.pid, identity(process.pid), spec.digest
    )


def stop(record: ProcessRecord, *, grace: float = 15.0, request: signal.Signals = signal.SIGTERM) -> None:
    """Stop the process of a record and wait until it has exited; it is killed after the grace period (seconds)."""
    for number, patience in ((request, grace), (signal.SIGKILL, 10.0)):
        if not alive(record) or record.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
        with contextlib.suppress(psutil.Error):
            _wait(record, patience)
    if alive(record):
        raise TrainyardError(
            f"{record.name} (pid {record.pid}) does not stop", fix="read its log, and stop it manually"
        )


def _wait(record: ProcessRecord, patience: float) -> None:
    deadline = time.monotonic() + patience
    while alive(record) and time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(record.pid or 0, os.WNOHANG)
        with contextlib.suppress(psutil.TimeoutExpired):
            psutil.Process(record.pid).wait(0.05)


def read_record(folder: Path, name: str) -> ProcessRecord | None:
    """Read the record of a process; None if it is missing or damaged."""
    try:
        return ProcessRecord(**json.loads((folder / f"{name}.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write_record(folder: Path, record: ProcessRecord) -> None:
    """Write the record of a process."""
    write_private(folder / f"{record.name}.json", json.dumps(asdict(record), indent=2) + "\n")


def stopped(record: ProcessRecord, waiting: str = "") -> ProcessRecord:
    """Return the record of a process that has exited."""
    return replace(record, pid=None, identity=None, digest="", waiting=waiting)


def rotate_log(log: Path, *, limit: int = _LOG_LIMIT) -> None:
    """Rotate a log above the size limit by copying and truncating, because the process keeps the file open."""
    try:
        if log.stat().st_size < limit:
            return
        for generation in range(_LOG_GENERATIONS - 1, 0, -1):
            older = log.with_name(f"{log.name}.{generation}")
            if older.exists():
                older.replace(log.with_name(f"{log.name}.{generation + 1}"))
        with (
            log.open("rb") as source,
            os.fdopen(
                os.open(log.with_name(f"{log.name}.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as target,
        ):
            while block := source.read(1 << 20):
                target.write(block)
        os.truncate(log, 0)
    except OSError:
        return


def last_lines(log: Path, lines: int) -> str:
    """Return the end of a log file."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max(4096, lines * 400)))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def last_error_line(log: Path) -> str:
    """Return the last error in a log, else its last line."""
    lines = [line.strip() for line in last_lines(log, 200).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or [""])[-1][:400]
