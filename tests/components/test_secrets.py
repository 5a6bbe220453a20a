"""Secrets in the configuration of a stack: rejected where their values would be written in clear text."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from tests.components.recording import Recording, record, stack_config
from trainyard.errors import TrainyardError
from trainyard.settings.stack_loader import stack_settings

HIDDEN = "v1:hidden-ciphertext"
CLUSTER = {"trainyard:cluster": {"provider": "embedded"}}


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("images", {"secure": HIDDEN}, "trainyard:images"),
        ("images", {"jobset": {"repository": {"secure": HIDDEN}}}, "trainyard:images.jobset.repository"),
        ("policies", {"folders": ["a", {"secure": HIDDEN}]}, r"trainyard:policies.folders\[1\]"),
    ],
)
def test_an_encrypted_setting_is_named_without_its_value(key: str, value: Any, path: str) -> None:
    with pytest.raises(TrainyardError, match=f"{path}: is a secret, but settings become part of") as caught:
        stack_settings({"config": {**CLUSTER, f"trainyard:{key}": value}}, source="Pulumi.test.yaml")
    assert "hidden" not in str(caught.value)


def test_secrets_of_other_namespaces_are_not_settings() -> None:
    stack_settings({"config": {**CLUSTER, "gcp:credentials": {"secure": HIDDEN}}}, source="Pulumi.test.yaml")


def test_a_stack_of_an_environment_alone_says_who_reads_it() -> None:
    with pytest.raises(TrainyardError, match="does not read the values of its ESC environment"):
        stack_settings({"environment": ["platform"]}, source="Pulumi.test.yaml")


def test_the_program_declares_nothing_from_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Recording] = []
    monkeypatch.setattr("tests.components.recording.Recording", lambda: recorded.append(Recording()) or recorded[-1])
    # With ESC or `pulumi config set --secret`, the engine passes the decrypted value and the key.
    monkeypatch.setattr(pulumi.runtime, "is_config_secret", lambda key: key == "trainyard:images")
    config = stack_config(images={"jobset": {"repository": "hidden.example/jobset"}})
    with pytest.raises(pulumi.RunError, match="trainyard:images: is a secret") as caught:
        record(config, monkeypatch)
    assert "hidden" not in str(caught.value)
    assert "hidden" not in json.dumps([dict(each.inputs) for each in recorded[0].objects])
