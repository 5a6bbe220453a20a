"""Loading: the program of each engine gets the archive, and what is missing is named with the fix."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.images.small_project import builder, project
from trainyard.errors import TrainyardError
from trainyard.local.images.built_image import BuiltImage
from trainyard.local.images.load_targets import LoadTarget, detect, load


class Engines:
    """Programs on PATH that record their commands."""

    def __init__(self, broken: tuple[str, ...] = (), rejects: str = "") -> None:
        self.broken, self.rejects = broken, rejects
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        failed = (command[0] in self.broken and "version" in command) or (self.rejects and self.rejects in command)
        return subprocess.CompletedProcess(command, int(bool(failed)), "", "no such\nsocket" if failed else "")


@pytest.fixture
def image(tmp_path: Path) -> BuiltImage:
    return builder(project(tmp_path / "project")).build()[0]


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("")
        (folder / name).chmod(0o755)


def test_containerd_gets_the_tag_and_the_digest(image: BuiltImage, on_path: Path) -> None:
    install(on_path, "ctr")
    engines = Engines()
    assert load([image], LoadTarget.CONTAINERD, address="/run/c.sock", run=engines) == [image.reference]
    ctr = ["ctr", "--address", "/run/c.sock"]
    images = [*ctr, "--namespace", "k8s.io", "images"]
    assert engines.commands == [
        [*ctr, "version"],
        [*images, "import", "--all-platforms", str(image.archive)],
        [*images, "tag", "--force", image.reference, f"localhost/trainyard/tool@{image.digest}"],
    ]


@pytest.mark.parametrize(
    ("target", "command"),
    [
        (LoadTarget.PODMAN, ["podman", "load", "--input", "ARCHIVE"]),
        (LoadTarget.DOCKER, ["docker", "load", "--input", "ARCHIVE"]),
        (LoadTarget.KIND, ["kind", "load", "image-archive", "ARCHIVE", "--name", "dev"]),
    ],
)
def test_engines_get_the_archive(image: BuiltImage, on_path: Path, target: LoadTarget, command: list[str]) -> None:
    install(on_path, target.value)
    engines = Engines()
    load([image], target, cluster="dev", run=engines)
    assert engines.commands[1:] == [[part.replace("ARCHIVE", str(image.archive)) for part in command]]


def test_kind_uses_the_engine_on_path(image: BuiltImage, on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks for the nodes of docker otherwise, and finds none."""
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    install(on_path, "kind", "podman")
    engines = Engines()
    load([image], LoadTarget.KIND, cluster="dev", run=engines)
    assert engines.commands[1][:4] == ["env", "KIND_EXPERIMENTAL_PROVIDER=podman", "kind", "load"]


def test_the_first_engine_that_responds_is_chosen(on_path: Path) -> None:
    install(on_path, "ctr", "docker", "kind")
    assert detect(Engines()) is LoadTarget.CONTAINERD
    assert detect(Engines(broken=("ctr",))) is LoadTarget.DOCKER


def test_what_is_missing_is_named_with_the_fix(image: BuiltImage, on_path: Path) -> None:
    install(on_path, "docker")
    with pytest.raises(TrainyardError) as caught:
        detect(Engines(broken=("docker",)))
    assert "ctr is not on PATH; podman is not on PATH; docker does not respond: no such socket" in str(caught.value)
    assert "apt-get install podman" in caught.value.fix
    with pytest.raises(TrainyardError, match=r"kind is not on PATH\nFix: install or start kind"):
        load([image], LoadTarget.KIND, run=Engines())


def test_an_image_that_is_rejected_names_image_and_command(image: BuiltImage, on_path: Path) -> None:
    install(on_path, "podman")
    with pytest.raises(TrainyardError, match=r"podman does not load localhost/trainyard/tool:v1.0: no such socket"):
        load([image], LoadTarget.PODMAN, run=Engines(rejects="load"))
