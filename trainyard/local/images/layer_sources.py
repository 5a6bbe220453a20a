"""Contents of a layer from its source: programs, Debian packages, Python packages, files of a module, a C program."""

from __future__ import annotations

import hashlib
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.local.images.bill_of_materials import ImageComponent, debian_component, go_components
from trainyard.local.images.compiler import compile_static, compiler_version, linked_components
from trainyard.local.images.debian_packages import debian_files, fetch, read_debian_lock
from trainyard.local.images.file_tree import FileTree, matches
from trainyard.local.images.python_packages import byte_compiled, locked_wheels, own_wheel, sources_digest, unpacked
from trainyard.local.images.recipe import LayerRecipe, ModuleFiles, PythonPackages

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DOCUMENTATION: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug")


def architecture() -> str:
    """Return the architecture of this machine, as Go and Debian name it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


@dataclass
class LayerContents:
    """Files of a layer, and what they are.

    Parameters
    ----------
    tree
        The files.
    components
        Packages and modules in it.
    """

    tree: FileTree = field(default_factory=FileTree)
    components: list[ImageComponent] = field(default_factory=list)


@dataclass(frozen=True)
class ContainedImage:
    """An image that a layer contains as an archive.

    Parameters
    ----------
    inputs
        Digest of everything that it depends on.
    archive
        Its file.
    reference
        Its name and tag.
    upstream
        Name and tag of the upstream image that it replaces; None: there is none.
    """

    inputs: str
    archive: Path
    reference: str
    upstream: str | None


@dataclass(frozen=True)
class LayerSources:
    """Sources of layers.

    Parameters
    ----------
    project
        The checkout.
    cache
        Folder of downloaded packages.
    program
        Returns the file of a program of the toolchain.
    go
        Runs a ``go`` command in a folder and returns its output.
    seal
        Returns the keyed hash of a record in the cache, whose key is not there.
    image
        Returns another image, which a layer contains as an archive.
    built
        Returns the file of a program without building it; None: as `program`.
    """

    project: Path
    cache: Path
    program: Callable[[str], Path]
    go: Callable[..., str]
    seal: Callable[[str], str]
    image: Callable[[str], ContainedImage] | None = None
    built: Callable[[str], Path] | None = None
    _known: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def recipes(self) -> Path:
        """Folder of the recipes."""
        return self.project / "images"

    def inputs(self, layer: LayerRecipe) -> str:
        """Return a digest of everything the contents of a layer depend on, except the layers below."""
        key = layer.model_dump_json()
        if key not in self._known:
            self._known[key] = self._inputs(layer)
        return self._known[key]

    def _inputs(self, layer: LayerRecipe) -> str:
        digest = hashlib.sha256(f"{architecture()}\n{layer.model_dump_json()}\n".encode())
        for name in sorted(layer.programs):
            with self.program(name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        for package in self._packages(layer):
            digest.update(f"{package}\n".encode())
        if layer.python is not None:
            if layer.python.requirements is not None:
                digest.update((self.project / layer.python.requirements).read_bytes())
            if layer.python.wheel:
                digest.update(sources_digest(self.project).encode())
        if layer.module is not None:
            digest.update(self._module(layer.module).name.encode())
        for name in sorted(layer.compile):
            digest.update((self.recipes / name).read_bytes())
            digest.update(compiler_version().encode())
        if layer.compile:
            digest.update(repr(linked_components(architecture())).encode())
        for path, source in self._files(layer).items():
            digest.update(f"{path}\0".encode() + source.read_bytes() + b"\0")
        for name in sorted(layer.images):
            digest.update(self._image(name).inputs.encode())
        return digest.hexdigest()

    def contents(self, layer: LayerRecipe, below: FileTree) -> LayerContents:
        """Return the contents of a layer.

        Parameters
        ----------
        layer
            The layer.
        below
            Files of the layers below.

        Raises
        ------
        TrainyardError
            A source is missing or cannot be built.
        """
        found = LayerContents()
        for name, path in layer.programs.items():
            program = self.program(name)
            found.tree.add(path, program, executable=True)
            found.components += go_components(self.go(self.project, "version", "-m", str(program)))
        self._add_debian(layer, found)
        if layer.python is not None:
            self._add_python(layer.python, found)
        if layer.module is not None:
            self._add_module(layer.module, found)
        for source, path in layer.compile.items():
            with tempfile.TemporaryDirectory() as folder:
                found.tree.add(path, compile_static(self.recipes / source, Path(folder)), executable=True)
        if layer.compile:
            found.components += linked_components(architecture())
        for path, file in self._files(layer).items():
            content = file.read_bytes()
            found.tree.add(path, content, executable=content.startswith(b"#!"))
        for path, target in layer.links.items():
            found.tree.add_link(path, target)
        self._add_images(layer, found)
        found.tree = found.tree.without(layer.without)
        if layer.byte_compile:
            found.tree.update(byte_compiled(found.tree, below))
        return found

    def module_version(self, group: str, module: str) -> str:
        """Return the pinned version of a Go module, without a leading v."""
        return (
            self.go(self.project / "toolchain" / group, "list", "-m", "-f", "{{.Version}}", module).strip().lstrip("v")
        )

    def _packages(self, layer: LayerRecipe) -> list[tuple[str, str, str, str]]:
        pinned = read_debian_lock(self.recipes, architecture(), layer.debian) if layer.debian else []
        return [(each.name, each.version, each.architecture, each.sha256) for each in pinned]

    def _add_debian(self, layer: LayerRecipe, found: LayerContents) -> None:
        if not layer.debian:
            return
        pinned = read_debian_lock(self.recipes, architecture(), layer.debian)
        files = fetch(pinned, self.cache / "debian")
        for package in pinned:
            everything = debian_files(files[package.name])
            for path, entry in everything.without(_DOCUMENTATION):
                if entry.content is None and entry.link is None:
                    continue
                if any(matches(path, [pattern]) for pattern in layer.debian[package.name]):
                    if entry.link is not None:
                        found.tree.add_link(path, entry.link)
                    else:
                        found.tree.add(path, entry.read(), executable=bool(entry.mode & 0o100))
            copyright_file = f"usr/share/doc/{package.name}/copyright"
            if everything.resolve(copyright_file) is not None:
                found.tree.add(copyright_file, everything[everything.resolve(copyright_file) or ""].read())
            found.components.append(
                debian_component(package.name, package.version, package.architecture, package.sha256)
            )

    def _files(self, layer: LayerRecipe) -> dict[str, Path]:
        """Return the files beside the recipe by their path in the image."""
        found: dict[str, Path] = {}
        for source, path in layer.files.items():
            place = self.recipes / source
            if place.is_file():
                found[path] = place
                continue
            files = sorted(file for file in place.rglob("*") if file.is_file())
            if not files:
                raise TrainyardError(f"{place} does not exist, or is empty", fix="correct files in the recipe")
            found.update({f"{path.rstrip('/')}/{file.relative_to(place).as_posix()}": file for file in files})
        return found

    def _image(self, name: str) -> ContainedImage:
        if self.image is None:
            raise TrainyardError(f"The image {name} cannot be part of another one", fix="remove images from the recipe")
        return self.image(name)

    def _add_images(self, layer: LayerRecipe, found: LayerContents) -> None:
        """Add archives, and beside each the name of the upstream image that it replaces."""
        for name, folder in layer.images.items():
            image = self._image(name)
            found.tree.add(f"{folder}/{name}.tar", image.archive)
            names = [image.reference, *([image.upstream] if image.upstream else [])]
            found.tree.add(f"{folder}/{name}.names", "".join(f"{each}\n" for each in names).encode())

    def _add_python(self, packages: PythonPackages, found: LayerContents) -> None:
        with tempfile.TemporaryDirectory() as folder:
            wheels = []
            if packages.requirements is not None:
                wheels += locked_wheels(self.project / packages.requirements, self.cache / "wheels")
            if packages.wheel:
                wheels.append(own_wheel(self.project, Path(folder)))
            tree, components = unpacked(wheels, packages.scripts)
        found.tree.update(tree)
        found.components += components

    def _add_module(self, files: ModuleFiles, found: LayerContents) -> None:
        folder = self._module(files) / files.path
        if not folder.is_dir():
            raise TrainyardError(f"{files.module} has no folder {files.path}", fix="correct module in the recipe")
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            path = file.relative_to(folder).as_posix()
            if not matches(path, files.without):
                content = file.read_bytes()
                found.tree.add(f"{files.to.strip('/')}/{path}", content, executable=content.startswith(b"#!"))
        version = self.module_version(files.group, files.module)
        found.components.append(ImageComponent(f"pkg:golang/{files.module}@v{version}", files.module, f"v{version}"))

    def _module(self, files: ModuleFiles) -> Path:
        folder = self.project / "toolchain" / files.group
        self.go(folder, "mod", "download", files.module)
        return Path(self.go(folder, "list", "-m", "-f", "{{.Dir}}", files.module).strip())
