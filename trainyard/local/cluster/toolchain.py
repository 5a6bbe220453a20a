"""Upstream programs: on PATH in the pinned version, or built once into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trainyard.data import data_folder, project_root
from trainyard.errors import TrainyardError
from trainyard.local.cluster.build import Build, is_built
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.go import Go, find_go
from trainyard.progress import Progress, SilentProgress
from trainyard.settings.versions import PROGRAM_GROUPS, PROGRAMS, Program, ProgramGroup


@dataclass(frozen=True)
class ResolvedProgram:
    """A program and its location.

    Parameters
    ----------
    origin
        ``path`` (found on PATH), ``plugin`` (found in Pulumi's plugin folder), ``built``, or ``missing``.
    """

    name: str
    version: str
    path: Path | None
    origin: str

    def as_json(self) -> dict[str, str | None]:
        """Return an entry of the JSON output of ``trainyard cluster toolchain``."""
        return {
            "name": self.name,
            "version": self.version,
            "path": str(self.path) if self.path else None,
            "from": self.origin,
        }


def pinned() -> tuple[Program, ...]:
    """Return the current pin of each program that every platform has."""
    first: dict[str, Program] = {}
    for program in (program for program in PROGRAMS if not (program.peer or program.optional)):
        first.setdefault(program.name, program)
    return tuple(first.values())


def program_path(name: str, version: str | None = None, progress: Progress | None = None) -> Path:
    """Return the file of a program, after building it if necessary.

    Parameters
    ----------
    version
        A tested version; None: the current pin.

    Raises
    ------
    TrainyardError
        The program or version is unknown, or cannot be built.
    """
    program = next((p for p in PROGRAMS if p.name == name and version in (None, p.version)), None)
    if program is None:
        known = ", ".join(p.version for p in PROGRAMS if p.name == name)
        raise TrainyardError(
            f"{name} {version} is not in the toolchain",
            fix=f"use a tested version: {known}" if known else "see trainyard/settings/versions.py",
        )
    path = Toolchain().ensure([program], progress or SilentProgress())[0].path
    assert path is not None  # noqa: S101
    return path


def built_program(name: str) -> Path:
    """Return the file of a program in its current pin, without building it.

    Raises
    ------
    TrainyardError
        The program is missing, or is not what was built.
    """
    path = Toolchain()._required([name])[0].path
    assert path is not None  # noqa: S101
    return path


def own_program(name: str, *, build: bool = True, progress: Progress | None = None) -> Path:
    """Return the file of a program in its current pin as built from the toolchain, never one on PATH.

    Parameters
    ----------
    name
        The program.
    build
        Whether to build it if it is missing.

    Raises
    ------
    TrainyardError
        It cannot be built; or it is missing, or is not what was built.
    """
    return Toolchain()._own(name, build, progress or SilentProgress())


class Toolchain:
    """Finds and builds programs.

    Parameters
    ----------
    sources
        Folder ``toolchain/``.
    cache
        Folder of built programs.
    """

    def __init__(self, sources: Path | None = None, cache: Path | None = None) -> None:
        self.sources = sources or _shipped()
        self.cache = cache or cache_home() / "toolchain"
        self._go: Go | None = None

    def resolve(self, programs: Iterable[Program] | None = None) -> list[ResolvedProgram]:
        """Return the locations of programs without building; by default of all current pins.

        A built program that is not what was built counts as missing.
        """
        wanted = tuple(pinned() if programs is None else programs)
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            return list(pool.map(self._resolve, wanted))

    def require(self, *names: str) -> None:
        """Raise unless programs are available, without building or downloading them.

        Raises
        ------
        TrainyardError
            A program is missing, or is not what was built.
        """
        self._required(names)

    def _required(self, names: Iterable[str]) -> list[ResolvedProgram]:
        found = self.resolve([program for program in pinned() if program.name in names])
        if missing := [program for program in found if program.path is None]:
            raise TrainyardError(
                f"Programs are missing, or are not what was built: "
                f"{', '.join(f'{each.name} {each.version}' for each in missing)} (in {self.cache})",
                fix="run `trainyard cluster toolchain`, which builds them",
            )
        return found

    def refuse_changed(self, *names: str) -> None:
        """Raise if a built program is not what was built; by default any program. Missing programs are accepted.

        Raises
        ------
        TrainyardError
            A program, or its record, was changed.
        """
        wanted = [program for program in pinned() if not names or program.name in names]
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            changed = [file for file in pool.map(self._changed, wanted) if file is not None]
        if changed:
            raise TrainyardError(
                f"{', '.join(map(str, changed))}: not the program that was built; it or its record was changed",
                fix="run `trainyard cluster toolchain`, which builds it again; find out what changed it",
            )

    def _changed(self, program: Program) -> Path | None:
        file = self._built(program)
        if not file.is_file() or self._installed(program) is not None or is_built(_group(program), file):
            return None
        return file

    def ensure(
        self, programs: Iterable[Program] | None = None, progress: Progress | None = None
    ) -> list[ResolvedProgram]:
        """Return the locations of programs after building the missing ones.

        Raises
        ------
        TrainyardError
            A program cannot be built.
        """
        wanted = tuple(pinned() if programs is None else programs)
        found = self.resolve(wanted)
        missing = [program for program, each in zip(wanted, found, strict=True) if each.path is None]
        if not missing:
            return found
        for group in PROGRAM_GROUPS:
            of_group = [program for program in missing if program.group == group.name]
            if of_group:
                self._build(group.name).run(of_group, progress or SilentProgress())
        return self.resolve(wanted)

    def without_sources(self, programs: Iterable[Program]) -> list[Program]:
        """Return the missing programs that cannot be built: the wheel has the sources of the policy server only."""
        unbuildable = [program for program in programs if not (self.sources / program.group).is_dir()]
        found = self.resolve(unbuildable)
        return [program for program, each in zip(unbuildable, found, strict=True) if each.path is None]

    def _own(self, name: str, build: bool, progress: Progress) -> Path:
        program = next(program for program in PROGRAMS if program.name == name)
        file = self._built(program)
        if is_built(_group(program), file):
            return file
        if not build:
            raise TrainyardError(f"{name} {program.version} is not built", fix="run `trainyard cluster toolchain`")
        return self._build(program.group).run([program], progress) / name

    def folders(self) -> list[Path]:
        """Return the folders of the built programs of every current pin, for PATH; they are not verified."""
        files = [self._built(program) for program in pinned() if self._installed(program) is None]
        return list(dict.fromkeys(file.parent for file in files if file.is_file()))

    def _installed(self, program: Program) -> ResolvedProgram | None:
        return _on_path(program, self.cache) or _plugin(program)

    def _resolve(self, program: Program) -> ResolvedProgram:
        if installed := self._installed(program):
            return installed
        built = self._built(program)
        if is_built(_group(program), built):
            return ResolvedProgram(program.name, program.version, built, "built")
        return ResolvedProgram(program.name, program.version, None, "missing")

    def _built(self, program: Program) -> Path:
        try:
            return self._build(program.group).folder / program.name
        except TrainyardError:
            return self._any_build(program)

    def _build(self, group_name: str) -> Build:
        if not (self.sources / group_name).is_dir():
            raise TrainyardError(
                f"Programs must be built, but {self.sources / group_name} does not exist",
                fix="run the command in a checkout of Trainyard",
            )
        if self._go is None:
            self._go = find_go()
        group = next(group for group in PROGRAM_GROUPS if group.name == group_name)
        return Build(group, self.sources / group_name, self.cache, self._go)

    def _any_build(self, program: Program) -> Path:
        built = sorted(self.cache.glob(f"{program.group}-*/bin/{program.name}"), key=lambda path: path.stat().st_mtime)
        return built[-1] if built else self.cache / program.group / program.name


def _group(program: Program) -> ProgramGroup:
    return next(group for group in PROGRAM_GROUPS if group.name == program.group)


def _shipped() -> Path:
    """Return the sources of the checkout, else those in the package, which are of the policy server only."""
    folder = project_root() / "toolchain"
    return folder if folder.is_dir() else data_folder("toolchain")


def _on_path(program: Program, cache: Path) -> ResolvedProgram | None:
    search = os.pathsep.join(
        entry for entry in os.environ.get("PATH", "").split(os.pathsep) if not Path(entry).is_relative_to(cache)
    )
    if program.name == "pulumi-language-python":
        cli = next(pin for pin in pinned() if pin.name == "pulumi")
        official, host = _on_path(cli, cache), shutil.which(program.name, path=search)
        if official is None or host is None:
            return None
        return ResolvedProgram(program.name, official.version, Path(host), "path")
    file = shutil.which(program.name, path=search)
    if file is None or program.version_arguments is None:
        return None
    version = _version_of(file, program.version_arguments)
    if version is None or not _acceptable(program, version):
        return None
    return ResolvedProgram(program.name, version, Path(file), "path")


def _acceptable(program: Program, version: str) -> bool:
    if program.name != "pulumi":
        return version == program.version
    major, minor, *_ = (int(part) for part in version.split("."))
    pinned_major, pinned_minor, *_ = (int(part) for part in program.version.split("."))
    return major == pinned_major and minor >= pinned_minor


def _version_of(file: str, arguments: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run([file, *arguments], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+\.\d+\.\d+)\b", re.sub(r"\d{4}/\d\d/\d\d [\d:.]+", "", done.stdout + done.stderr))
    return found[1] if found else None


def _plugin(program: Program) -> ResolvedProgram | None:
    if not program.name.startswith("pulumi-resource-"):
        return None
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    kind = program.name.removeprefix("pulumi-")
    file = home / "plugins" / f"{kind}-v{program.version}" / program.name
    return ResolvedProgram(program.name, program.version, file, "plugin") if file.is_file() else None
