"""The component of the runtimes: folders and Python, mirrors and digests, and what is replaced when it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.mocks import set_mocks

from components import runtimes
from components.runtimes import Runtimes, RuntimesArgs
from tests.components.recording import Recording, _Echo, _Monitor
from trainyard.api.runtime import RuntimeSpec
from trainyard.data import data_folder
from trainyard.jobs.runtimes.authoring import AuthoredVersion, Release, author
from trainyard.jobs.runtimes.catalog import Runtime, spec_hash
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.settings.platform import RuntimeSettings

DIGEST = "sha256:" + "d" * 64
PLAIN = load_catalog(data_folder("runtimes"), ("plain",)).runtimes[0].versions[0]
IMAGE = PLAIN.body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
    "containers"
][0]["image"]


def authored() -> Runtime:
    spec = dict(PLAIN.body["spec"])
    released = AuthoredVersion("1.0", RuntimeSpec.from_body(spec), "First", Release(date(2027, 1, 1), spec_hash(spec)))
    draft = AuthoredVersion("1.1", RuntimeSpec.from_body(spec), "Second")
    return author(
        "ours",
        framework="plainml",
        owner="us",
        summary="Ours",
        versions=[released, draft],
        alias="1.0",
        also_named=["own"],
    )


def installed(
    monkeypatch: pytest.MonkeyPatch,
    settings: RuntimeSettings,
    given: Iterable[Runtime] = (),
    opts: Callable[[], pulumi.ResourceOptions] = pulumi.ResourceOptions,
) -> Recording:
    """Declare the component and return what was registered."""
    recording = Recording()
    set_mocks(_Echo(), project="trainyard", stack="local", monitor=_Monitor(recording))

    @pulumi.runtime.test
    def program() -> None:
        Runtimes("runtimes", RuntimesArgs(settings, given), opts())

    program()
    return recording


def image(recording: Recording, name: str) -> str:
    (body,) = [each.inputs for each in recording.objects if each.inputs["metadata"]["name"] == name]
    pod: dict[str, Any] = body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return str(pod["containers"][0]["image"])


@pytest.mark.parametrize(
    "given",
    [lambda each: each, lambda each: [each], lambda each: pulumi.Output.from_input([each])],
    ids=["one", "several", "output"],
)
def test_runtimes_follow_what_the_component_depends_on(
    monkeypatch: pytest.MonkeyPatch, given: Callable[[pulumi.Resource], Any]
) -> None:
    def opts() -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(depends_on=given(pulumi.CustomResource("test:index:Before", "before", {})))

    recording = installed(monkeypatch, RuntimeSettings(include=("plain",)), opts=opts)
    assert len(recording.objects) == 2
    assert all(recording.before(each) == {"before"} for each in recording.objects)


def test_folders_and_python_make_one_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = installed(monkeypatch, RuntimeSettings(include=("plain", "ours")), [authored()])
    names = [each.inputs["metadata"]["name"] for each in recording.objects]
    assert sorted(names) == ["ours", "ours-1.0", "ours-1.1", "own", "plain", "plain-1.0"]
    assert image(recording, "ours-1.0") == image(recording, "plain-1.0") == IMAGE


def test_images_come_from_the_mirror_by_the_locked_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "index.yaml").write_text("runtimes: {}\n")
    (tmp_path / "images.lock").write_text(f"images:\n  {IMAGE}: {DIGEST}\n")
    monkeypatch.setattr(runtimes, "catalog_folders", lambda _: [data_folder("runtimes"), tmp_path])
    settings = RuntimeSettings(include=("plain",), mirrors={"docker.io": "mirror.example/hub"})
    recording = installed(monkeypatch, settings)
    expected = IMAGE.replace("docker.io", "mirror.example/hub")
    assert image(recording, "plain") == image(recording, "plain-1.0") == f"{expected}@{DIGEST}"
    (version,) = [each.inputs for each in recording.objects if each.inputs["metadata"]["name"] == "plain-1.0"]
    annotations = version["metadata"]["annotations"]
    assert annotations["trainyard.dev/released"] == PLAIN.body["metadata"]["annotations"]["trainyard.dev/released"]


def test_only_a_released_version_is_replaced_when_its_spec_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its spec is final in a cluster; aliases and drafts change in place."""
    recording = installed(monkeypatch, RuntimeSettings(include=("ours",)), [authored()])
    assert {each.inputs["metadata"]["name"]: each.replaced_for for each in recording.objects} == {
        "ours-1.0": ("spec",),
        "ours-1.1": (),
        "own": (),
        "ours": (),
    }


@pytest.mark.parametrize("mirrors", [{"docker.io": ""}, {"": "a"}, {"docker.io": "https://a"}, {"a b": "c"}])
def test_a_mirror_that_is_no_place_is_refused(mirrors: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"not a registry|pattern"):
        RuntimeSettings(mirrors=mirrors)
