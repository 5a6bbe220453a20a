"""ConfigMaps and Secrets as folders that change as a whole."""

from __future__ import annotations

import base64
from pathlib import Path

from trainyard.local.cluster.supervisor.pod_requirements import VolumeSource
from trainyard.local.cluster.supervisor.volumes import content, sync

SECRET = {"data": {"tls.crt": base64.b64encode(b"certificate").decode(), "ca.crt": base64.b64encode(b"ca").decode()}}


def test_a_secret_is_decoded_and_a_configmap_is_text() -> None:
    assert content(VolumeSource("v", "secret", "s"), SECRET) == {"tls.crt": b"certificate", "ca.crt": b"ca"}
    assert content(VolumeSource("v", "configMap", "c"), {"data": {"a": "text"}}) == {"a": b"text"}


def test_a_missing_source_or_key_is_waited_for_unless_optional() -> None:
    items = (("tls.crt", "cert.pem"), ("tls.key", "key.pem"))
    assert content(VolumeSource("v", "secret", "s"), None) is None
    assert content(VolumeSource("v", "secret", "s", optional=True), None) == {}
    assert content(VolumeSource("v", "secret", "s", items=items), SECRET) is None
    assert content(VolumeSource("v", "secret", "s", True, items), SECRET) == {"cert.pem": b"certificate"}


def test_files_are_private_and_change_together(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    assert sync(folder, {"tls.crt": b"1", "tls.key": b"1", "sub/old": b"x"})
    assert not sync(folder, {"tls.crt": b"1", "tls.key": b"1", "sub/old": b"x"})
    first = (folder / "..data").readlink()
    assert sync(folder, {"tls.crt": b"2", "tls.key": b"2"})
    assert (folder / "tls.crt").read_bytes() == b"2"
    assert (folder / "tls.key").stat().st_mode & 0o777 == 0o600
    assert (folder / "..data").readlink() != first
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith("..")) == ["tls.crt", "tls.key"]
    assert len([path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]) == 1


def test_an_interrupted_change_is_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    sync(folder, {"a": b"1"})
    (folder / "..data").unlink()
    assert sync(folder, {"a": b"1"})
    assert (folder / "a").read_bytes() == b"1"
