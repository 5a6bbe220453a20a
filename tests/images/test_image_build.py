"""Images: equal inputs make equal digests, nothing is built twice, and an incomplete image is rejected."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.images.small_project import RECIPE, builder, project
from trainyard.errors import TrainyardError
from trainyard.local.images.compiler import linked_components
from trainyard.local.images.image_lock import settings_fragment
from trainyard.local.images.oci_archive import read_archive
from trainyard.settings.platform import ImageSettings


def test_equal_inputs_make_equal_archives_under_another_umask_time_zone_and_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = builder(project(tmp_path / "one")).build()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    time.tzset()
    mask = os.umask(0o077)
    try:
        (second,) = builder(project(tmp_path / "elsewhere" / "two"), tmp_path / "other").build()
    finally:
        os.umask(mask)
        monkeypatch.undo()
        time.tzset()
    assert (first.reference, first.digest) == (second.reference, second.digest)
    assert first.archive.read_bytes() == second.archive.read_bytes()
    assert first.bill.read_text() == second.bill.read_text()


def test_an_archive_is_a_valid_oci_layout_and_has_the_manifest_of_docker(tmp_path: Path) -> None:
    (image,) = builder(project(tmp_path)).build()
    with tarfile.open(image.archive) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}  # type: ignore[union-attr]
        assert {(member.uid, member.gid, member.mtime) for member in archive.getmembers()} == {(0, 0, 0)}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(files["index.json"])["manifests"]
    assert set(described["annotations"].values()) == {"localhost/trainyard/tool:v1.0"}
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    manifest = json.loads(files[f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"])
    for blob in (manifest["config"], *manifest["layers"]):
        assert len(files[f"blobs/sha256/{blob['digest'].removeprefix('sha256:')}"]) == blob["size"]
    (docker,) = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == ["localhost/trainyard/tool:v1.0"]
    assert {docker["Config"], *docker["Layers"]} <= files.keys()
    config = json.loads(files[docker["Config"]])
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["/tool"]
    assert len(config["rootfs"]["diff_ids"]) == len(manifest["layers"])


def test_only_what_changed_is_built(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (first,) = builder(folder).build()
    written = first.archive.stat().st_mtime_ns
    (second,) = builder(folder).build()
    assert (second.seconds, second.archive.stat().st_mtime_ns) == (0.0, written)
    (folder / "tool").write_bytes(b"another program")
    assert [image.state for image in builder(folder).images()] == ["changed"]
    (third,) = builder(folder).build()
    assert third.digest != first.digest
    assert [image.state for image in builder(folder).images()] == ["built"]


def test_checkouts_that_share_a_folder_do_not_replace_the_images_of_each_other(tmp_path: Path) -> None:
    one, other = project(tmp_path / "one"), project(tmp_path / "other", content=b"another program")
    shared = tmp_path / "archives"
    (first,) = builder(one, shared, shared=True).build()
    (second,) = builder(other, shared, shared=True).build()
    assert first.digest != second.digest
    for folder, image in ((one, first), (other, second)):
        (found,) = builder(folder, shared, shared=True).archives(["tool"])
        assert (found.state, found.digest, found.archive) == ("built", image.digest, image.archive)
    (same,) = builder(project(tmp_path / "same"), shared, shared=True).images()
    assert (same.state, same.archive) == ("built", first.archive)


@pytest.mark.parametrize("shared", [True, False])
def test_one_image_needs_no_program_of_another(tmp_path: Path, shared: bool) -> None:
    """The lock of all built images follows each build; a program that takes minutes was built for it."""
    compiled: list[str] = []
    folder = project(tmp_path, {"tool": RECIPE, "other": RECIPE.replace("tool", "other")})
    small = builder(folder, shared=shared, compiled=compiled)
    small.build(["tool"])
    assert compiled == []
    assert {image.name: image.state for image in small.images()} == {"tool": "built", "other": "missing"}
    small.build()
    assert compiled == ["other"]
    assert {image.state for image in small.images()} == {"built"}


def test_checkouts_may_build_the_same_image_at_once(tmp_path: Path) -> None:
    """The folder is shared; a file that both write would be neither's, or vanish under the slower one."""
    content = bytes(range(256)) * 8192
    folders = [project(tmp_path / str(number), content=content) for number in range(8)]
    small = [builder(folder, tmp_path / "out", shared=True) for folder in folders]
    with ThreadPoolExecutor(len(small)) as pool:
        built = [image for images in pool.map(lambda each: each.build(), small) for image in images]
    assert {image.state for image in built} == {"built"}
    assert len({read_archive(image.archive).digest for image in built}) == 1
    assert [path.name for path in tmp_path.glob("out/*/.*")] == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_bill_of_a_compiled_program_has_the_libraries_that_are_linked_into_it(tmp_path: Path) -> None:
    folder = project(
        tmp_path, {"one": 'title: C\nversion: "1"\nlayers: [{compile: {one.c: /one}}]\nentrypoint: [/one]\n'}
    )
    (folder / "images" / "one.c").write_text("int main(void) { return 0; }\n")
    (image,) = builder(folder).build()
    components = json.loads(image.bill.read_text())["components"]
    names = [re.sub(r"-\d+", "", each["name"]) for each in components]
    assert names == (["libc6-dev", "libgcc-dev"] if shutil.which("dpkg-query") else ["libc.a", "libgcc.a"])
    assert all(each["version"] for each in components)


def test_libraries_without_a_package_are_listed_by_their_hash(tmp_path: Path) -> None:
    for name in ("libc.a", "libgcc.a"):
        (tmp_path / name).write_text(name)

    def run(command: list[str], _folder: Path) -> str:
        if command[0] == "dpkg-query":
            raise TrainyardError("dpkg-query failed", fix="")
        return str(tmp_path / command[1].partition("=")[2])

    found = linked_components("amd64", run)
    assert [each.name for each in found] == ["libc.a", "libgcc.a"]
    assert [each.sha256 for each in found] == [
        hashlib.sha256(name.encode()).hexdigest() for name in ("libc.a", "libgcc.a")
    ]


def test_images_that_no_checkout_has_built_for_a_month_are_removed(tmp_path: Path) -> None:
    folder, shared = project(tmp_path / "one"), tmp_path / "archives"
    (first,) = builder(folder, shared, shared=True).build()
    record = first.archive.with_name("tool.build.json")
    month = time.time() - 31 * 86400
    os.utime(record, (month, month))
    builder(folder, shared, shared=True).build()
    assert first.archive.is_file()
    os.utime(record, (month, month))
    (folder / "tool").write_bytes(b"another program")
    builder(folder, shared, shared=True).build()
    assert not first.archive.parent.exists()


def test_a_changed_archive_is_built_again_and_never_used(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (first,) = builder(folder).build()
    first.archive.write_bytes(b"something else")
    with pytest.raises(TrainyardError, match="is not what was built"):
        builder(folder).archives()
    (second,) = builder(folder).build()
    assert second.digest == first.digest
    assert read_archive(second.archive).digest == first.digest


def test_an_archive_of_other_inputs_is_never_used_under_the_present_tag(tmp_path: Path) -> None:
    folder = project(tmp_path, {"tool": RECIPE, "other": RECIPE.replace("setting: opa\n", "")})
    old = {image.name: image for image in builder(folder).build()}
    recipe = folder / "images" / "tool.yaml"
    recipe.write_text(RECIPE.replace('"1.0"', '"2.0"'))
    changed = builder(folder)
    (found,) = changed.images(["tool"])
    assert (found.state, found.reference, found.digest) == ("changed", old["tool"].reference, old["tool"].digest)
    for use in (changed.archives, changed.locked):
        for names in ((), ("tool",)):
            with pytest.raises(
                TrainyardError, match=r"tool\.tar was built from other inputs\n.*trainyard images build tool$"
            ):
                use(names)
    changed.build(["other"])
    assert yaml.safe_load((changed.out / "images.lock").read_text())["images"] == {
        f"localhost/trainyard/{name}:v1.0": image.digest for name, image in old.items()
    }
    changed.build(["tool"])
    assert {image.reference for image in changed.archives()} == {
        "localhost/trainyard/other:v1.0",
        "localhost/trainyard/tool:v2.0",
    }


def test_an_archive_of_another_image_is_never_used(tmp_path: Path) -> None:
    folder = project(tmp_path, {"tool": RECIPE, "other": RECIPE})
    other, first = builder(folder).build()
    for suffix in (".tar", ".build.json"):
        shutil.copy(folder / "out" / f"other{suffix}", folder / "out" / f"tool{suffix}")
    exchanged = builder(folder)
    assert [(image.name, image.state, image.digest) for image in exchanged.images()] == [
        ("other", "built", other.digest),
        ("tool", "missing", None),
    ]
    with pytest.raises(TrainyardError, match=r"tool is not built in .*\n.*trainyard images build tool$"):
        exchanged.archives(["tool"])
    exchanged.build(["other"])
    assert yaml.safe_load((exchanged.out / "images.lock").read_text()) == {"images": {other.reference: other.digest}}
    assert exchanged.build(["tool"])[0].digest == first.digest


def test_a_changed_layer_in_the_cache_is_built_again(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (first,) = builder(folder).build()
    for layer in (folder / "cache" / "layers").glob("*.tar.gz"):
        layer.write_bytes(b"something else")
    first.archive.unlink()
    (second,) = builder(folder).build()
    assert second.digest == first.digest


def test_a_forged_record_is_not_believed(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (first,) = builder(folder).build()
    first.archive.write_bytes(b"something else")
    (record,) = (folder / "cache" / "layers").glob("*.json")
    layer = record.with_suffix(".tar.gz")
    layer.write_bytes(b"something else")
    forge(record, "digest", f"sha256:{sha256(layer)}")
    forge(first.archive.with_name("tool.build.json"), "archive", sha256(first.archive))
    assert [image.state for image in builder(folder).images()] == ["missing"]
    (second,) = builder(folder).build()
    assert second.digest == first.digest


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def forge(file: Path, key: str, value: str) -> None:
    document = json.loads(file.read_text())
    document["record"] = json.dumps({**json.loads(document["record"]), key: value}, sort_keys=True)
    file.write_text(json.dumps(document))


def test_the_bill_of_materials_names_every_module_and_the_digest(tmp_path: Path) -> None:
    (image,) = builder(project(tmp_path)).build()
    document = json.loads(image.bill.read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert [each["purl"] for each in document["components"]] == [
        "pkg:golang/example.org/fork@v0.2.0",
        "pkg:golang/example.org/one@v1.2.3",
        "pkg:golang/stdlib@1.26.8",
    ]
    (hashed,) = document["metadata"]["component"]["hashes"]
    assert f"sha256:{hashed['content']}" == image.digest


def test_the_lock_and_the_settings_name_the_built_image(tmp_path: Path) -> None:
    small = builder(project(tmp_path))
    (image,) = small.build()
    lock = yaml.safe_load((small.out / "images.lock").read_text())
    assert lock == {"images": {"localhost/trainyard/tool:v1.0": image.digest}}
    loaded = yaml.safe_load(settings_fragment(small.locked()))["config"]["trainyard:images"]
    assert loaded == {"opa": {"repository": "localhost/trainyard/tool", "tag": "v1.0"}}
    pushed = yaml.safe_load(settings_fragment(small.locked(), "registry.example/team/"))["config"]["trainyard:images"]
    assert ImageSettings.model_validate(pushed["opa"]).digest == image.digest
    assert pushed["opa"]["repository"] == "registry.example/team/tool"


def test_upstream_images_of_runtimes_are_mirrored(tmp_path: Path) -> None:
    small = builder(project(tmp_path, {"tool": RECIPE.replace("setting: opa\n", "")}))
    small.build()
    fragment = yaml.safe_load(settings_fragment(small.locked(), "registry.example"))["config"]
    assert fragment == {"trainyard:runtimes": {"mirrors": {"docker.io/openpolicyagent/opa": "registry.example/tool"}}}


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (RECIPE.replace("/tool}", "/bin/sh}"), "contains bin/sh, and exceptions.shell gives no reason"),
        (RECIPE + "exceptions: {shell: scripts}\n", "gives a reason, but it contains no shell"),
        (RECIPE.replace("[/tool]", "[/other]"), "entrypoint /other does not exist"),
    ],
)
def test_an_image_that_breaks_a_rule_is_not_built(tmp_path: Path, recipe: str, message: str) -> None:
    small = builder(project(tmp_path, {"tool": recipe}))
    with pytest.raises(TrainyardError, match=message):
        small.build()
    assert [image.state for image in small.images()] == ["missing"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_without_its_libraries_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("#include <math.h>\nint main(int n, char **v) { (void)v; return (int)sqrt(n); }\n")
    subprocess.run(["cc", "-o", tmp_path / "dynamic", source, "-lm"], check=True)
    small = builder(project(tmp_path / "project", content=(tmp_path / "dynamic").read_bytes()))
    with pytest.raises(TrainyardError, match=r"/tool needs .*libc\.so\.6.*/ld-linux"):
        small.build()


def test_an_image_that_is_not_built_names_the_command(tmp_path: Path) -> None:
    small = builder(project(tmp_path))
    with pytest.raises(TrainyardError, match="trainyard images build tool"):
        small.archives(["tool"])
    with pytest.raises(TrainyardError, match="use one of tool"):
        small.build(["other"])
    (tmp_path / "tool").unlink()
    assert [image.state for image in small.images()] == ["missing"]


def test_without_a_built_image_there_is_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match=r"^No image is built in .*\n.*trainyard images build$"):
        builder(project(tmp_path)).archives()
