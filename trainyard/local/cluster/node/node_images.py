"""The images of this checkout in the containerd of each node."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.images.built_image import BuiltImage

_NAMESPACE = "k8s.io"


def first_process(pid: int) -> int | None:
    """Return the first process of a node from the id of the process that started it; None while it does not run."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def enter(pid: int) -> list[str]:
    """Return the command that runs another one in the namespaces of a node's first process."""
    return ["nsenter", f"--target={pid}", "--mount", "--net", "--pid", "--uts", "--ipc", "--"]


def import_images(nodes: Mapping[str, Sequence[str]], images: Sequence[BuiltImage]) -> int:
    """Import the images that are missing, or were built again, in each node; return how many were imported.

    Parameters
    ----------
    nodes
        By name of the node, the command that runs another one in it.
    images
        Built images.

    Raises
    ------
    TrainyardError
        A node's containerd rejects an image.
    """
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        return sum(pool.map(lambda node: _import(node[0], node[1], images), nodes.items()))


def _import(node: str, inside: Sequence[str], images: Iterable[BuiltImage]) -> int:
    control = [*inside, "ctr", "--namespace", _NAMESPACE, "images"]
    present = _run(node, [*control, "list", "--quiet"]).split()
    missing = [image for image in images if _by_digest(image) not in present]
    for image in missing:
        with image.archive.open("rb") as archive:
            _run(node, [*control, "import", "--all-platforms", "-"], archive)
        if image.digest not in _run(node, [*control, "list", f"name=={image.reference}"]).split():
            raise TrainyardError(
                f"Node {node} has imported another image than {image.reference} with digest {image.digest}",
                fix=f"run `trainyard images build {image.name}`, then `trainyard cluster up` again",
            )
        # A pod that names an image by its digest finds it only under this name, which also tells what is present.
        _run(node, [*control, "tag", "--force", image.reference, _by_digest(image)])
    return len(missing)


def _by_digest(image: BuiltImage) -> str:
    return f"{image.reference.rpartition(':')[0]}@{image.digest}"


def _run(node: str, command: list[str], source: object = subprocess.DEVNULL) -> str:
    done = subprocess.run(command, stdin=source, capture_output=True, text=True, check=False)  # type: ignore[call-overload]  # noqa: S603
    if done.returncode:
        raise TrainyardError(
            f"containerd of node {node} does not answer `ctr {' '.join(command[-4:])}`: "
            f"{' '.join(done.stderr.split())[-300:]}",
            fix="read its log (`trainyard cluster logs`), and run `trainyard cluster up` again",
        )
    return str(done.stdout)
