"""Build the programs of one toolchain folder into the cache: once, under a lock, resumable, with progress."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.cluster.build_records import is_recorded, record
from trainyard.local.cluster.folders import exclusive, private_folder
from trainyard.local.cluster.go import BUILD_FLAGS, Go, build_command, link_flags, output_name
from trainyard.progress import Progress, Step
from trainyard.settings.versions import Edit, Program, ProgramGroup

_GIBIBYTE = 1 << 30
_PER_PACKAGE = 1_500_000
"""Bytes of a compiled package in Go's build cache, on average over all groups."""
_PER_PROGRAM = 110_000_000
_MODULES = 4 * _GIBIBYTE
"""Bytes of the downloaded and unpacked modules of all groups."""


@dataclass(frozen=True)
class Build:
    """The build of one group.

    Parameters
    ----------
    group
        The group to build.
    sources
        Its folder, with go.mod and go.sum unless it shares those of another group.
    cache
        Cache folder; it has a folder for each group and hash.
    go
        The compiler.
    """

    group: ProgramGroup
    sources: Path
    cache: Path
    go: Go

    @property
    def folder(self) -> Path:
        """Folder of the built programs; its name contains a hash of all inputs of the build."""
        return self.cache / f"{self.group.name}-{self._hash()}" / "bin"

    def _hash(self) -> str:
        digest = hashlib.sha256()
        own = ((file, str(file.relative_to(self.sources))) for file in self.sources.rglob("*") if file.is_file())
        for file, name in (*sorted(own), *((file, file.name) for file in self._shared_modules())):
            digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
        for text in (
            BUILD_FLAGS,
            link_flags(self.group),
            self.go.version,
            platform.system(),
            platform.machine(),
            repr(self.group),
            *map(repr, self.group.edits),
        ):
            digest.update(text.encode() + b"\0")
        return digest.hexdigest()[:16]

    def _shared_modules(self) -> list[Path]:
        """Return go.mod and go.sum of the group whose modules this one shares."""
        folder = self.sources.parent / self.group.modules
        return [folder / name for name in ("go.mod", "go.sum")] if self.group.modules else []

    @property
    def log(self) -> Path:
        """Log file of the build."""
        return self.cache / "logs" / f"{self.group.name}.log"

    def missing(self, programs: Iterable[Program]) -> dict[str, Program]:
        """Return the programs that are not in the cache, or are not what was built."""
        folder = self.folder
        return {program.name: program for program in programs if not is_built(self.group, folder / program.name)}

    def run(self, programs: Iterable[Program], progress: Progress) -> Path:
        """Build the missing programs and return their folder.

        Raises
        ------
        TrainyardError
            The build failed, or the disk is too small. Compiled packages are kept for the next attempt.
        """
        wanted = tuple(programs)
        if not self.missing(wanted):
            return self.folder
        with progress.step(f"Build {self.group.name}") as step:
            private_folder(self.folder)
            private_folder(self.log.parent)
            private_folder(self.folder.parent / "records")
            lock = self.cache / f".{self.group.name}.lock"
            with exclusive(lock, on_wait=lambda: step.update("waiting for another build of the same programs")):
                missing = self.missing(wanted)
                changed = sorted(name for name in missing if (self.folder / name).is_file())
                if missing:
                    self._build(missing, step)
            built = f"{len(missing)} programs built" if missing else "built by another run"
            step.done(f"{built}; changed or without a record: {', '.join(changed)}" if changed else built)
        return self.folder

    def _build(self, missing: Mapping[str, Program], step: Step) -> None:
        work = self.folder.parent / "work"
        shutil.rmtree(work, ignore_errors=True)
        try:
            shutil.copytree(self.sources, work / "source", copy_function=shutil.copyfile)
            for file in self._shared_modules():
                shutil.copyfile(file, work / "source" / file.name)
            output = private_folder(work / "bin")
            source = work / "source"
            self._require_space(_GIBIBYTE if self._modules_known() else _MODULES)
            with self.log.open("w", buffering=1) as log:
                for module, path in self.group.sources:
                    shutil.copyfile(self._module(source, module, step, log.name) / path, source / Path(path).name)
                for edit in self.group.edits:
                    self._edit(source / edit.file, edit)
                total = self._packages(source, missing, step)
                self._require_space(required_space(total, len(missing)))
                self._compile(source, missing, output, total, step)
            for module, path in self.group.companions:
                target = output / Path(path).name
                shutil.copyfile(self._module(source, module, step, str(self.log)) / path, target)
                target.chmod(0o700)
            folder = self.folder
            for _, path in self.group.companions:
                _install(output / Path(path).name, folder / Path(path).name)
            for program in missing.values():
                # Go names the program of a module's own folder after the module.
                name = output_name(program.package, self.group.modules or self.sources.name)
                _install(output / name, folder / program.name)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _module(self, source: Path, module: str, step: Step, log: str) -> Path:
        step.update(f"downloading {module}")
        self.go.run(source, "mod", "download", module)
        return Path(self.go.run(source, "list", "-m", "-f", "{{.Dir}}", module).strip())

    def _edit(self, file: Path, edit: Edit) -> None:
        text = file.read_text()
        if text.count(edit.old) != 1:
            raise self._failure("its sources have changed", f"{edit.old} does not occur once in {edit.file}")
        file.write_text(text.replace(edit.old, edit.new))

    def _packages(self, source: Path, missing: Mapping[str, Program], step: Step) -> int:
        step.update("listing packages (downloads modules on the first run)")
        template = "{{if .Stale}}{{.ImportPath}}\t{{.StaleReason}}{{end}}"
        command = [self.go.path, "list", "-deps", "-f", template, *(program.package for program in missing.values())]
        errors: deque[str] = deque(maxlen=20)
        listing = source / "packages.txt"
        with (
            listing.open("w") as output,
            subprocess.Popen(  # noqa: S603
                command, cwd=source, env=self.go.environment, stdout=output, stderr=subprocess.PIPE, text=True
            ) as process,
        ):
            assert process.stderr is not None  # noqa: S101
            for line in process.stderr:
                errors.append(line)
                if line.startswith("go: downloading"):
                    step.update(" ".join(line.split()[1:3]))
        if process.returncode:
            self.log.write_text("".join(errors))
            raise self._failure("downloading its modules failed", "".join(errors))
        return sum(1 for line in listing.read_text().splitlines() if line and "build cache" not in line)

    def _compile(self, source: Path, missing: Mapping[str, Program], output: Path, total: int, step: Step) -> None:
        command = build_command(self.go, self.group, missing, source, output)
        tail: deque[str] = deque(maxlen=40)
        done = 0
        with (
            self.log.open("w", buffering=1) as log,
            subprocess.Popen(  # noqa: S603
                command,
                cwd=source,
                env=self.go.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            log.write(f"{' '.join(command)}\n")
            assert process.stderr is not None  # noqa: S101
            for line in process.stderr:
                log.write(line)
                tail.append(line)
                text = line.strip()
                if text.startswith("go: downloading"):
                    step.update(" ".join(text.split()[1:3]))
                elif re.fullmatch(r"[\w./~+-]+", text):
                    done += 1
                    step.update(f"compiling {text}", fraction=min(0.99, done / total) if total else None)
        if process.returncode:
            raise self._failure("compilation failed", "".join(tail))

    def _failure(self, what: str, output: str) -> TrainyardError:
        if "no space left" in output:
            return TrainyardError(
                f"The disk is full: cannot build {self.group.name}", fix="free space and run the same command again"
            )
        lines = [line for line in output.splitlines() if line.strip()]
        return TrainyardError(
            f"The programs of toolchain/{self.group.name} cannot be built: {what}: "
            + " ".join((lines or ["no output"])[-1].split())[:300],
            fix=f"read {self.log}; check the network and GOPROXY, then run the command again "
            "(compiled packages are kept)",
        )

    def _modules_known(self) -> bool:
        return (Path(self.go.run(self.sources, "env", "GOMODCACHE").strip()) / "cache" / "download").is_dir()

    def _require_space(self, needed: int) -> None:
        caches = [Path(path) for path in self.go.run(self.sources, "env", "GOCACHE", "GOMODCACHE").split()]
        for folder in (self.cache, *caches):
            existing = next(path for path in (folder, *folder.parents) if path.exists())
            free = shutil.disk_usage(existing).free
            if free < needed:
                raise TrainyardError(
                    f"Building {self.group.name} needs about {needed / _GIBIBYTE:.1f} GiB in {folder}, "
                    f"but only {free / _GIBIBYTE:.1f} GiB are free",
                    fix="free space there, or set GOCACHE, GOMODCACHE or TRAINYARD_CACHE_HOME to a larger disk",
                )


def is_built(group: ProgramGroup, file: Path) -> bool:
    """Return whether a program of a group, and the scripts that belong to it, are those that were built."""
    companions = (file.with_name(Path(path).name) for _, path in group.companions)
    return all(is_recorded(each) for each in (file, *companions))


def _install(built: Path, target: Path) -> None:
    built.replace(target)
    record(target)


def required_space(packages: int, programs: int) -> int:
    """Return the approximate disk space, in bytes, to compile uncached packages and to link programs."""
    return packages * _PER_PACKAGE + programs * _PER_PROGRAM
