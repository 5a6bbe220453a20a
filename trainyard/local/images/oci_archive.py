"""OCI images as files: layers, configuration, manifest and archive, with equal digests for equal contents.

There is a writer of our own because none of the kept ones fits: buildah, umoci and kaniko are programs that need a
container storage, a user namespace or root; the Python libraries on PyPI (oras, python-dxf, containerregistry) copy
finished images between registries and write no reproducible layers. The format is small: tar, gzip and four JSON
documents of the OCI image specification 1.0.

The archive also has ``manifest.json``, which releases of ``docker load`` without the OCI format read.
The compressed bytes depend on the release of zlib; the digests of the uncompressed layers do not.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from trainyard.atomic_write import atomic_write
from trainyard.local.images.file_tree import FileTree

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_EPOCH: Final = "1970-01-01T00:00:00Z"
_LEVEL: Final = 6
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Blob:
    """A compressed layer.

    Parameters
    ----------
    file
        Its file.
    digest, diff_id
        SHA-256 of the compressed and of the uncompressed bytes, with prefix.
    size
        Bytes, compressed.
    """

    file: Path
    digest: str
    diff_id: str
    size: int


@dataclass(frozen=True)
class ImageConfig:
    """Configuration of the container of an image.

    Parameters
    ----------
    architecture
        As Go names it, such as amd64.
    entrypoint, user, environment, folder
        Command, numeric user, variables and working directory.
    labels
        Labels, such as ``org.opencontainers.image.version``.
    stop_signal
        Signal that stops the container; None: SIGTERM.
    """

    architecture: str
    entrypoint: Sequence[str]
    user: int
    environment: Mapping[str, str]
    folder: str
    labels: Mapping[str, str]
    stop_signal: str | None = None

    def document(self, layers: Sequence[Blob]) -> dict[str, Any]:
        """Return the configuration document."""
        return {
            "architecture": self.architecture,
            "config": {
                "Entrypoint": list(self.entrypoint),
                "Env": [f"{name}={value}" for name, value in sorted(self.environment.items())],
                "Labels": dict(sorted(self.labels.items())),
                **({"StopSignal": self.stop_signal} if self.stop_signal else {}),
                "User": f"{self.user}:{self.user}",
                "WorkingDir": self.folder,
            },
            "created": _EPOCH,
            "history": [{"created": _EPOCH, "created_by": "trainyard images build"} for _ in layers],
            "os": "linux",
            "rootfs": {"diff_ids": [layer.diff_id for layer in layers], "type": "layers"},
        }


@dataclass(frozen=True)
class OciImage:
    """A finished image.

    Parameters
    ----------
    manifest, config
        The documents as bytes.
    layers
        Digest and size of each layer.
    """

    manifest: bytes
    config: bytes
    layers: tuple[tuple[str, int], ...]

    @property
    def digest(self) -> str:
        """Digest of the manifest, which is the digest of the image."""
        return _digest(self.manifest)

    @property
    def size(self) -> int:
        """Bytes of the compressed layers."""
        return sum(size for _, size in self.layers)


def write_layer(tree: FileTree, file: Path) -> Blob:
    """Write a tree as a compressed layer; the file appears when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as output:
        plain = hashlib.sha256()
        with gzip.GzipFile(filename="", mode="wb", fileobj=output, compresslevel=_LEVEL, mtime=0) as compressed:
            tree.write_tar(_Hashing(compressed, plain))  # type: ignore[arg-type]
        output.flush()
        output.seek(0)
        packed = hashlib.file_digest(output, "sha256")  # type: ignore[arg-type]
        size = output.seek(0, io.SEEK_END)
    return Blob(file, f"sha256:{packed.hexdigest()}", f"sha256:{plain.hexdigest()}", size)


class _Hashing:
    """A file that hashes the bytes written to it."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, digest: Any) -> None:
        self._file, self._digest, self._written = file, digest, 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self._written += len(data)
        self._file.write(data)
        return len(data)

    def tell(self) -> int:
        return self._written


def write_archive(file: Path, reference: str, config: ImageConfig, layers: Sequence[Blob]) -> OciImage:
    """Write an image as an OCI archive; the file appears when it is complete.

    Parameters
    ----------
    file
        The archive.
    reference
        Name and tag under which the archive is loaded.
    config
        Configuration of the container.
    layers
        Layers from the lowest to the highest.
    """
    settings = _json(config.document(layers))
    manifest = _json(
        {
            "config": {"digest": _digest(settings), "mediaType": _CONFIG, "size": len(settings)},
            "layers": [{"digest": each.digest, "mediaType": _LAYER, "size": each.size} for each in layers],
            "mediaType": _MANIFEST,
            "schemaVersion": 2,
        }
    )
    index = _json(
        {
            "manifests": [
                {
                    "annotations": {
                        "io.containerd.image.name": reference,
                        "org.opencontainers.image.ref.name": reference,
                    },
                    "digest": _digest(manifest),
                    "mediaType": _MANIFEST,
                    "platform": {"architecture": config.architecture, "os": "linux"},
                    "size": len(manifest),
                }
            ],
            "mediaType": _INDEX,
            "schemaVersion": 2,
        }
    )
    docker = [
        {
            "Config": _blob(_digest(settings)),
            "Layers": [_blob(each.digest) for each in layers],
            "RepoTags": [reference],
        }
    ]
    tree = FileTree()
    tree.add("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    tree.add("index.json", index)
    tree.add("manifest.json", _json(docker))
    tree.add(_blob(_digest(settings)), settings)
    tree.add(_blob(_digest(manifest)), manifest)
    for each in layers:
        tree.add(_blob(each.digest), each.file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as output:
        tree.write_tar(output)
    return OciImage(manifest, settings, tuple((each.digest, each.size) for each in layers))


def read_archive(file: Path) -> OciImage:
    """Return the image of an archive that `write_archive` wrote.

    Raises
    ------
    ValueError
        It is not such an archive.
    """
    try:
        with tarfile.open(file) as archive:
            index = json.loads(_member(archive, "index.json"))
            manifest = _member(archive, _blob(index["manifests"][0]["digest"]))
            document = json.loads(manifest)
            config = _member(archive, _blob(document["config"]["digest"]))
            layers = tuple((each["digest"], each["size"]) for each in document["layers"])
    except (tarfile.TarError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{file} is not an OCI archive") from error
    return OciImage(manifest, config, layers)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None  # noqa: S101
    return file.read()


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
