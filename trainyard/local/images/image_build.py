"""Builds of images: layers from a cache, checks of each image, archives, bills of materials and the image lock."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import trainyard
from trainyard.atomic_write import write_text
from trainyard.errors import TrainyardError
from trainyard.local.images.bill_of_materials import ImageComponent, bill_of_materials
from trainyard.local.images.built_image import BuiltImage, ImageFiles
from trainyard.local.images.file_tree import FileTree
from trainyard.local.images.image_lock import LockedImage, write_lock
from trainyard.local.images.image_rules import require_rules
from trainyard.local.images.layer_sources import ContainedImage, LayerContents, LayerSources, architecture
from trainyard.local.images.oci_archive import Blob, ImageConfig, write_archive, write_layer
from trainyard.local.images.recipe import LayerRecipe, Recipe
from trainyard.progress import Progress, SilentProgress
from trainyard.settings.versions import PROGRAMS

_UNUSED_SECONDS: Final = 30 * 86400.0
_ACCOUNTS: Final = {
    "etc/passwd": b"root:x:0:0:root:/:/nonexistent\nnonroot:x:65532:65532:nonroot:/tmp:/nonexistent\n",
    "etc/group": b"root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": b"hosts: files dns\n",
}


class ImageBuilder:
    """Builds images into a folder.

    Parameters
    ----------
    recipes
        All recipes by name.
    sources
        Sources of layers.
    out
        Folder of the archives.
    shared
        Whether checkouts share the folder: it then has one folder for the inputs of each image, so that none replaces
        an image of another one.
    """

    def __init__(
        self, recipes: Mapping[str, Recipe], sources: LayerSources, out: Path, *, shared: bool = False
    ) -> None:
        self.recipes = recipes
        self.out = out
        self.shared = shared
        self.sources = replace(sources, image=self._contained)
        self._layers = sources.cache / "layers"

    def build(self, names: Iterable[str] = (), progress: Progress | None = None) -> list[BuiltImage]:
        """Build images whose inputs have changed, all but optional ones if no names are given; update the image lock.

        Images that a layer of another one contains are built before it.

        Raises
        ------
        TrainyardError
            A recipe does not exist, a source is missing, or an image breaks a rule without an exception.
        """
        wanted = self._wanted(names)
        contained = [name for recipe in wanted for layer in recipe.layers for name in layer.images]
        recipes = [*(self._chosen(contained) if contained else []), *wanted]
        unique = {recipe.name: recipe for recipe in recipes}.values()
        built = [self._build(recipe, progress or SilentProgress()) for recipe in unique]
        self._remove_unused()
        write_lock(self.out, [self._locked(image) for image in self.images() if image.digest is not None])
        return built

    def images(self, names: Iterable[str] = ()) -> list[BuiltImage]:
        """Return images without building anything; all if no names are given."""
        sources = replace(self.sources, program=self.sources.built or self.sources.program)
        reader = ImageBuilder(self.recipes, sources, self.out, shared=self.shared)
        return [reader._found(recipe) for recipe in self._chosen(names)]

    def require_current(self, names: Iterable[str] = ()) -> None:
        """Raise unless images are built from their present inputs; builds nothing. Without names as `build`.

        Raises
        ------
        TrainyardError
            Names the images that are missing or have changed, or a source that is missing.
        """
        wanted = self._wanted(names)
        for recipe in wanted:
            self._inputs(recipe)
        found = self.images(recipe.name for recipe in wanted)
        if absent := [f"{image.name} ({image.state})" for image in found if image.state != "built"]:
            raise TrainyardError(f"Images are not built: {', '.join(absent)}", fix="trainyard images build")

    def archives(self, names: Iterable[str] = ()) -> list[BuiltImage]:
        """Return built images, whose archives are as recorded; all built ones but optional ones if no names are given.

        Raises
        ------
        TrainyardError
            A named image, or every image, is not built, or one was built from other inputs than the present ones.
        """
        wanted = tuple(names)
        chosen = [recipe.name for recipe in self._wanted(wanted)]
        found = [image for image in self.images(chosen) if image.digest is not None]
        missing = sorted(set(wanted) - {image.name for image in found})
        if missing or not found:
            raise TrainyardError(
                f"{', '.join(missing)} is not built in {self.out}" if missing else f"No image is built in {self.out}",
                fix=f"trainyard images build{''.join(f' {name}' for name in missing)}",
            )
        for image in found:
            if image.state != "built":
                raise TrainyardError(
                    f"{image.archive} was built from other inputs", fix=f"trainyard images build {image.name}"
                )
            if self._record(ImageFiles(image.archive.parent, image.name)).get("archive") != _sha256(image.archive):
                raise TrainyardError(
                    f"{image.archive} is not what was built", fix=f"trainyard images build {image.name}"
                )
        return found

    def _chosen(self, names: Iterable[str]) -> list[Recipe]:
        wanted = tuple(dict.fromkeys(names))
        if unknown := [name for name in wanted if name not in self.recipes]:
            raise TrainyardError(
                f"There is no recipe of {unknown[0]}", fix=f"use one of {', '.join(sorted(self.recipes))}"
            )
        return [self.recipes[name] for name in wanted or self.recipes]

    def _wanted(self, names: Iterable[str]) -> list[Recipe]:
        """Return the named recipes, or without names all but the optional ones."""
        named = tuple(names)
        return [recipe for recipe in self._chosen(named) if named or not recipe.optional]

    def _build(self, recipe: Recipe, progress: Progress) -> BuiltImage:
        started = time.monotonic()
        with progress.step(f"Image {recipe.name}") as step:
            inputs = self._inputs(recipe)
            place = self._place(recipe, inputs)
            record = self._record(place)
            if record.get("inputs") == inputs and record.get("archive") == _sha256(place.archive):
                os.utime(place.record)
                step.done("unchanged")
                return self._found(recipe)
            below, blobs, components = FileTree(), [self._base()], []
            for number, layer in enumerate(recipe.layers):
                step.update(f"layer {number + 1} of {len(recipe.layers)}")
                blob, of_layer, tree = self._layer(layer, below, self._layer_inputs(recipe.layers[: number + 1]))
                blobs.append(blob)
                components += of_layer
                below.update(tree)
            require_rules(recipe, below)
            reference = self._reference(recipe)
            config = ImageConfig(
                architecture(),
                recipe.entrypoint,
                recipe.user,
                recipe.environment,
                recipe.folder,
                _labels(recipe, reference),
                recipe.stop_signal,
            )
            image = write_archive(place.archive, reference, config, blobs)
            write_text(place.bill, bill_of_materials(reference, image.digest, components))
            self._write_record(
                place.record,
                {
                    "name": recipe.name,
                    "inputs": inputs,
                    "reference": reference,
                    "digest": image.digest,
                    "size": image.size,
                    "unpackedSize": below.size,
                    "archive": _sha256(place.archive),
                },
            )
            step.done(f"{image.size / 1e6:.1f} MB, {image.digest[:19]}")
        return replace(self._found(recipe), seconds=time.monotonic() - started)

    def _found(self, recipe: Recipe) -> BuiltImage:
        inputs = reference = None
        with contextlib.suppress(TrainyardError):
            reference = self._reference(recipe)
            if self.shared or self._record(self._place(recipe, None)):
                inputs = self._inputs(recipe)
        place = self._place(recipe, inputs)
        record = self._record(place)
        built = bool(record) and place.archive.is_file()
        state = ("built" if record["inputs"] == inputs else "changed") if built else "missing"
        return BuiltImage(
            recipe.name,
            record["reference"] if state == "changed" else reference or record.get("reference", recipe.repository),
            record["digest"] if built else None,
            record["size"] if built else None,
            record["unpackedSize"] if built else 0,
            state,
            place.archive,
            place.bill,
            recipe.user,
            {str(rule): reason for rule, reason in recipe.exceptions.items()},
        )

    def _base(self) -> Blob:
        tree = FileTree()
        for path, content in _ACCOUNTS.items():
            tree.add(path, content)
        tree.add_folder("tmp", 0o1777)
        return write_layer(tree, self._layers / "base.tar.gz")

    def _layer(self, layer: LayerRecipe, below: FileTree, inputs: str) -> tuple[Blob, list[ImageComponent], FileTree]:
        file, record = self._layers / f"{inputs}.tar.gz", self._layers / f"{inputs}.json"
        document = self._read_record(record)
        if document.get("inputs") == inputs and document["digest"] == f"sha256:{_sha256(file)}":
            blob = Blob(file, document["digest"], document["diffId"], document["size"])
            with file.open("rb") as content:
                return blob, [ImageComponent(**each) for each in document["components"]], FileTree.from_tar(content)
        contents: LayerContents = self.sources.contents(layer, below)
        blob = write_layer(contents.tree, file)
        self._write_record(
            record,
            {
                "inputs": inputs,
                "digest": blob.digest,
                "diffId": blob.diff_id,
                "size": blob.size,
                "components": [asdict(each) for each in contents.components],
            },
        )
        return blob, contents.components, contents.tree

    def _layer_inputs(self, layers: tuple[LayerRecipe, ...]) -> str:
        *below, layer = layers
        digest = hashlib.sha256(f"{_code_digest()}\n{self.sources.inputs(layer)}\n".encode())
        if layer.byte_compile:
            digest.update("".join(self.sources.inputs(each) for each in below).encode())
        return digest.hexdigest()

    def _inputs(self, recipe: Recipe) -> str:
        digest = hashlib.sha256(f"{recipe.model_dump_json()}\n{self._reference(recipe)}\n".encode())
        for number in range(len(recipe.layers)):
            digest.update(self._layer_inputs(recipe.layers[: number + 1]).encode())
        return digest.hexdigest()

    def _contained(self, name: str) -> ContainedImage:
        recipe = self._chosen([name])[0]
        inputs, reference = self._inputs(recipe), self._reference(recipe)
        upstream = f"{recipe.replaces}:{reference.rpartition(':')[2]}" if recipe.replaces else None
        return ContainedImage(inputs, self._place(recipe, inputs).archive, reference, upstream)

    def _reference(self, recipe: Recipe) -> str:
        kind, *rest = recipe.version.split()
        if kind == "program":
            version = next(program.version for program in PROGRAMS if program.name == rest[0])
        elif kind == "module":
            version = self.sources.module_version(*rest)
        else:
            version = trainyard.__version__ if kind == "trainyard" else kind
        return f"{recipe.repository}:{recipe.tag.format(version=version)}"

    def locked(self, names: Iterable[str] = ()) -> list[LockedImage]:
        """Return built images with the settings and upstream images that they replace. Without names as `archives`.

        Raises
        ------
        TrainyardError
            A named image, or every image, is not built, or one was built from other inputs than the present ones.
        """
        return [self._locked(image) for image in self.archives(names)]

    def _locked(self, image: BuiltImage) -> LockedImage:
        recipe = self.recipes[image.name]
        return LockedImage(image.name, image.reference, image.digest or "", recipe.setting, recipe.replaces)

    def _remove_unused(self) -> None:
        """Remove images of inputs that no build has had for a long time."""
        if not self.shared:
            return
        oldest = time.time() - _UNUSED_SECONDS
        for record in self.out.glob("*/*.build.json"):
            with contextlib.suppress(FileNotFoundError):  # Another build has removed it.
                if record.stat().st_mtime < oldest:
                    shutil.rmtree(record.parent, ignore_errors=True)

    def _place(self, recipe: Recipe, inputs: str | None) -> ImageFiles:
        return ImageFiles(self.out / inputs[:16] if self.shared and inputs is not None else self.out, recipe.name)

    def _record(self, place: ImageFiles) -> dict[str, Any]:
        """Return the record of an image; empty if it is that of another image."""
        record = self._read_record(place.record)
        return record if record.get("name") == place.name else {}

    def _write_record(self, file: Path, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, sort_keys=True)
        write_text(file, json.dumps({"seal": self.sources.seal(text), "record": text}, indent=2) + "\n")

    def _read_record(self, file: Path) -> dict[str, Any]:
        """Return a record; empty if it is missing or was changed, so that what it describes is built again."""
        try:
            document = json.loads(file.read_text())
            text, sealed = str(document["record"]), str(document["seal"])
            found = json.loads(text) if hmac.compare_digest(sealed, self.sources.seal(text)) else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return found if isinstance(found, dict) else {}


def _labels(recipe: Recipe, reference: str) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": recipe.title,
        "org.opencontainers.image.version": reference.rpartition(":")[2],
    }


@cache
def _code_digest() -> str:
    """Return a digest of the code that writes layers, so that a change of it builds them again."""
    digest = hashlib.sha256(zlib.ZLIB_RUNTIME_VERSION.encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sha256(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
