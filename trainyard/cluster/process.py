"""Detached processes: start each in its own session, record it, and find it again.

A process is known by its pid and its start time, never by its name.
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

from trainyard.cluster.files import write_private
from trainyard.problem import TrainyardError

__all__ = [
    "HEARTBEAT",
    "NOT_INSTALLED",
    "STOPPING",
    "ProcessRecord",
    "ProcessSpec",
    "alive",
    "identity",
    "last_lines",
    "read_record",
    "rotate",
    "start",
    "stop",
    "stopped",
    "telling_line",
    "write_record",
]

HEARTBEAT = "supervisor.heartbeat"
"""File among the process records that the supervisor touches every few seconds."""

NOT_INSTALLED = "not installed"
"""What a record waits for while no Deployment asks for its program."""

STOPPING = "stopping"
"""What the record of a process says from the request to stop until its end."""

_LOG_LIMIT = 20 * 1024 * 1024
_LOG_GENERATIONS = 3
_ERROR = re.compile(r"^[EF]\d{4} |^panic: |\bERROR\b|\bFATAL\b|\bError\b|\"level\":\"(error|fatal)\"")


@dataclass(frozen=True)
class ProcessSpec:
    """What to run.

    Parameters
    ----------
    name, version
        The program.
    command
        Program file and arguments.
    address
        Host and port it serves, for people.
    log
        File that receives its output.
    environment
        Variables on top of a minimal environment.
    inputs
        Digest of the files it reads at start; a change means a restart.
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
        """Hash of everything that decides how the process behaves."""
        text = json.dumps([self.command, sorted(self.environment.items()), self.inputs])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ProcessRecord:
    """What is known of a process after the one who started it is gone.

    Parameters
    ----------
    pid, identity
        The process; the identity tells it from a later one with the same pid. None while it does not run.
    digest
        What it was started with.
    restarts
        How often it was started again after it died.
    waiting
        Why it does not run now, empty if it should run; `STOPPING` while it ends.
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
    """Return what tells a process from every other that has or had its pid; None when it is gone or a zombie."""
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
    """Tell whether the very process of a record runs; a stale pid that another process got does not count."""
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
        The program cannot be started.
    """
    rotate(spec.log)
    environment = {
        key: os.environ[key] for key in ("HOME", "PATH", "LANG", "TZ", "TMPDIR", "USER") if key in os.environ
    }
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
                env={**environment, **spec.environment},
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
    """Stop the process of a record and wait for its end: asked first, killed after the grace period (seconds)."""
    for number, patience in ((request, grace), (signal.SIGKILL, 10.0)):
        if not alive(record) or record.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
        with contextlib.suppress(psutil.Error):
            _wait(record, patience)
    if alive(record):
        raise TrainyardError(
            f"{record.name} (pid {record.pid}) does not stop", fix="look at its log, and stop it by hand"
        )


def _wait(record: ProcessRecord, patience: float) -> None:
    deadline = time.monotonic() + patience
    while alive(record) and time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(record.pid or 0, os.WNOHANG)
        with contextlib.suppress(psutil.TimeoutExpired):
            psutil.Process(record.pid).wait(0.05)


def read_record(folder: Path, name: str) -> ProcessRecord | None:
    """Read the record of a process; None where there is none or it is damaged."""
    try:
        return ProcessRecord(**json.loads((folder / f"{name}.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write_record(folder: Path, record: ProcessRecord) -> None:
    """Keep the record of a process."""
    write_private(folder / f"{record.name}.json", json.dumps(asdict(record), indent=2) + "\n")


def stopped(record: ProcessRecord, waiting: str = "") -> ProcessRecord:
    """Return the record of the process after its end."""
    return replace(record, pid=None, identity=None, digest="", waiting=waiting)


def rotate(log: Path, *, limit: int = _LOG_LIMIT) -> None:
    """Move a log that grew too large into numbered generations; a process may keep its file open."""
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


def telling_line(log: Path) -> str:
    """Return the log line that most likely says what is wrong: the last error, else the last line."""
    lines = [line.strip() for line in last_lines(log, 200).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or [""])[-1][:400]
