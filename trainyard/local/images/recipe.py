"""Recipes of images: one file an image in ``images/``, discovered.

A recipe with ``base: NAME`` starts with the layers and the environment of ``images/base/NAME.yaml``, which several
images share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load

LOCAL = "localhost/trainyard"
"""Repository prefix of images that are in no registry."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class PythonPackages(_Model):
    """Wheels of a hash-locked requirements file, relative to the project.

    Parameters
    ----------
    requirements
        The file; None: no further packages.
    wheel
        Whether the wheel of this checkout is installed.
    scripts
        Console scripts of the packages that are installed in ``/usr/local/bin``.
    """

    requirements: str | None = None
    wheel: bool = False
    scripts: tuple[str, ...] = ()


class ModuleFiles(_Model):
    """Files of a pinned Go module.

    Parameters
    ----------
    group
        Folder of ``toolchain/`` whose go.mod pins the module.
    module, path, to
        The module, the folder in it, and the folder in the image.
    without
        Patterns of files that are left out.
    """

    group: str
    module: str
    path: str
    to: str
    without: tuple[str, ...] = ()


class LayerRecipe(_Model):
    """A layer; it has exactly one source.

    Parameters
    ----------
    debian
        Patterns of the installed files by Debian package; ``["*"]`` for all.
    programs
        Path in the image by program of the toolchain.
    python, module
        Python packages, or files of a Go module.
    compile
        Path in the image by C source beside the recipe; compiled statically.
    files
        Path in the image by file or folder beside the recipe; files that start with ``#!`` are executable.
    links
        Target by path of a symbolic link.
    images
        Folder in the image by recipe whose archive it gets.
    without
        Patterns of files that are left out.
    byte_compile
        Whether Python modules of the layer are compiled, by the interpreter in the image.
    """

    debian: dict[str, tuple[str, ...]] = {}
    programs: dict[str, str] = {}
    python: PythonPackages | None = None
    module: ModuleFiles | None = None
    compile: dict[str, str] = {}
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    images: dict[str, str] = {}
    without: tuple[str, ...] = ()
    byte_compile: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> LayerRecipe:
        sources = [
            self.debian,
            self.programs,
            self.python,
            self.module,
            self.compile,
            self.files,
            self.links,
            self.images,
        ]
        if sum(bool(source) for source in sources) != 1:
            raise ValueError("a layer has one of debian, programs, python, module, compile, files, links and images")
        return self


class Recipe(_Model):
    """An image.

    Parameters
    ----------
    name
        File name of the recipe, and last part of the repository.
    title
        Purpose, one line.
    setting
        Name in ``images:`` of the settings; None: pods name the image otherwise.
    replaces
        Repository of the upstream image with the same programs; None: there is none.
    version
        ``program NAME``, ``module GROUP MODULE``, ``trainyard``, or a version.
    tag
        Tag, with ``{version}``.
    layers
        Layers from the lowest to the highest.
    entrypoint, user, environment, folder
        Command, user and group, variables and working directory.
    stop_signal
        Signal that stops its process; None: SIGTERM.
    optional
        Whether it is built only when it is named: not every platform needs it.
    exceptions
        Reason by rule that the image does not follow: ``root``, ``shell``.
    """

    name: str
    title: str
    setting: str | None = None
    replaces: str | None = None
    version: str
    tag: str = "v{version}"
    layers: tuple[LayerRecipe, ...] = Field(min_length=1)
    entrypoint: tuple[str, ...] = Field(min_length=1)
    user: int = Field(default=65532, ge=0, lt=1 << 31)
    environment: dict[str, str] = {}
    folder: str = "/"
    stop_signal: str | None = None
    optional: bool = False
    exceptions: dict[Literal["root", "shell"], str] = {}

    @model_validator(mode="after")
    def _user_is_explained(self) -> Recipe:
        if (self.user == 0) != ("root" in self.exceptions):
            raise ValueError("user 0 requires a reason under exceptions.root, and another user none")
        return self

    @property
    def repository(self) -> str:
        """Repository of the image on machines without a registry."""
        return f"{LOCAL}/{self.name}"


def read_recipes(folder: Path) -> dict[str, Recipe]:
    """Return the recipes of a folder by name, sorted.

    Raises
    ------
    TrainyardError
        The folder does not exist, or a recipe is invalid.
    """
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise TrainyardError(f"{folder} has no image recipes", fix="run the command in a checkout of Trainyard")
    return {file.stem: _read(file) for file in files}


def _read(file: Path) -> Recipe:
    document = _document(file)
    if base := document.pop("base", None):
        below = _document(file.parent / "base" / f"{base}.yaml")
        document["layers"] = [*(below.get("layers") or ()), *(document.get("layers") or ())]
        document["environment"] = {**(below.get("environment") or {}), **(document.get("environment") or {})}
    try:
        return Recipe.model_validate({"name": file.stem, **document})
    except ValidationError as error:
        findings = [
            Finding(f"{file}: {'.'.join(map(str, each['loc']))}", each["msg"], "see docs/images.md")
            for each in error.errors()
        ]
        raise TrainyardError("The image recipe is invalid", findings=findings) from error


def _document(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise TrainyardError(f"{file} does not exist", fix="correct base in the recipe")
    document: Any = load(file.read_text(), str(file), fix="see docs/images.md")
    return dict(document) if isinstance(document, dict) else {}
