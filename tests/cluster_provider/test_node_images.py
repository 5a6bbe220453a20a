"""Import of images into the containerd of a node, which is a table here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster.node import node_images

NAME = "localhost/trainyard/pause"


class Node:
    """Images by name, with the digest that an import gives."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.images: dict[str, str] = {}

    def __call__(self, node: str, command: list[str], source: object = None) -> str:
        match command[command.index("images") + 1 :]:
            case ["list", "--quiet"]:
                return "\n".join(self.images)
            case ["list", query]:
                name = query.removeprefix("name==")
                return f"REF TYPE DIGEST\n{name} manifest {self.images[name]}\n"
            case ["import", *_]:
                self.images[f"{NAME}:v1"] = self.digest
            case ["tag", "--force", name, other]:
                self.images[other] = self.images[name]
        return ""


@pytest.fixture
def image(tmp_path: Path) -> SimpleNamespace:
    archive = tmp_path / "pause.tar"
    archive.touch()
    return SimpleNamespace(name="pause", reference=f"{NAME}:v1", digest="sha256:a", archive=archive)


def test_what_a_node_has_is_not_imported_again(monkeypatch: pytest.MonkeyPatch, image: SimpleNamespace) -> None:
    node = Node("sha256:a")
    monkeypatch.setattr(node_images, "_run", node)
    assert [node_images._import("a", ["enter"], [image]) for _ in range(2)] == [1, 0]
    assert node.images == {f"{NAME}:v1": "sha256:a", f"{NAME}@sha256:a": "sha256:a"}


def test_an_image_gets_the_name_of_a_digest_only_if_it_has_it(
    monkeypatch: pytest.MonkeyPatch, image: SimpleNamespace
) -> None:
    node = Node("sha256:b")
    monkeypatch.setattr(node_images, "_run", node)
    with pytest.raises(TrainyardError, match="Node a has imported another image than"):
        node_images._import("a", ["enter"], [image])
    assert f"{NAME}@sha256:a" not in node.images
