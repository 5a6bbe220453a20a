"""Secrets inside texts: options, keys, tokens and addresses, in time linear in the length of the text."""

from __future__ import annotations

import base64

import pytest

from tests.counting import cpu_seconds
from tests.explain.recorded_clusters import NOW, body
from trainyard.cluster_state.observed import Observed
from trainyard.cluster_state.recorded_file import recorded
from trainyard.cluster_state.redaction import redacted
from trainyard.cluster_state.secret_texts import is_secret, without_secrets, without_values

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nX-SECRET\n-----END OPENSSH PRIVATE KEY-----"
ENCODED = base64.b64encode(KEY.encode()).decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--ssh-private-key=X-1", "--ssh-private-key=…"),
        ("run --token X-1 --verbose", "run --token … --verbose"),
        ("run --password X-1 X-2 --verbose", "run --password … … --verbose"),
        ("a --api-key='X-1 X-2' -v", "a --api-key=… … …"),
        ("WANDB_API_KEY=X-1", "WANDB_API_KEY=…"),
        ('{"password": "X-1"}', '{"password": …'),
        ("password: X-1", "password: …"),
        ("Authorization: Bearer X-1", "Authorization: Bearer …"),
        (f"failed: {KEY}", "failed: …"),
        (f"key {ENCODED}", "key …"),
        (f"key {ENCODED[:76]}\n{ENCODED[76:]}", "key …"),
        (f"x:{base64.b64encode(b'a' + KEY.encode()).decode()}", "x:…"),
        ("https://user:X-1@host/a", "https://host/a"),
        ("https://user:X-1@X-2@host/a", "https://host/a"),
        ("see https://host/a?sig=X-1&b=2#X-3 now", "see https://host/a now"),
        ("git+https://x-access-token:X-1@github.com/a/b.git", "git+https://github.com/a/b.git"),
        ("/health?token=X-1", "/health"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "…"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh", "…"),
        ("AKIAABCDEFGHIJKLMNOP", "…"),
        ("-o username=u,password=X-1,vers=3.0 //host", "-o username=u,password=…,vers=3.0 //host"),
    ],
)
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text).startswith(shown)
    assert "X-" not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "registry.example.com/train@sha256:" + "0123456789abcdef" * 4,
        "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        "2026-11-28T12:00:00Z",
        "s3://bucket/data",
        'secret "dataset-credentials" not found',
        "kubernetes.io/service-account-token",
        "a=b",
        "torchrun --nproc-per-node=8 train.py",
        "node.kubernetes.io/unreachable:NoExecute op=Exists for 300s",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert without_secrets(text) == text


def test_a_value_may_be_an_argument_of_its_own() -> None:
    arguments = ["--no-root", "--ssh-private-key", KEY, "--ssh-public-key", "kept", "--token=X-1", "kept"]
    shown = ["--no-root", "--ssh-private-key", "…", "--ssh-public-key", "kept", "--token=…", "kept"]
    assert without_values(arguments) == shown


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((name, True) for name in ("password", "privateKey", "SSH_PRIVATE_KEY", "api-key", "clientSecret", "token")),
        *((name, False) for name in ("secretName", "tokenPath", "key", "name", "secretRef", "volumeName")),
    ],
)
def test_names_of_secrets_are_not_secret(name: str, secret: bool) -> None:
    assert is_secret(name) == secret


def test_a_snapshot_has_no_keys_of_plugins_and_options() -> None:
    plugins = {"ssh": [f"--ssh-private-key={KEY}", "--no-root"], "svc": ["--x-token", "X-2"], "pytorch": []}
    options = {"nested": {"options": [{"password": "X-3", "args": "X-4"}], "clientSecret": "X-5", "secretName": "kept"}}
    spec = {"plugins": plugins, "driver": options, "list": ["--token", "X-6", ENCODED]}
    message = 'tasks[0].env[0].value: Invalid value: "X-7"'
    job = body("batch.volcano.sh/v1alpha1", "Job", "j", "vision", spec=spec, status={"state": {"message": message}})
    text = str(recorded(Observed(NOW, (job,))))
    assert not [secret for secret in ("X-", "BEGIN", ENCODED[:40]) if secret in text]
    assert redacted(job)["spec"]["plugins"] == {"ssh": [], "svc": [], "pytorch": []}
    assert redacted(job)["spec"]["driver"]["nested"]["secretName"] == "kept"


@pytest.mark.parametrize(
    "unit",
    [
        *("env.", "env: Invalid value: ", "://", "?", "?a=", "-", "--token", "--token ", "a@", "://a@", "=", "Bearer "),
        *("-----BEGIN", "LS0t", "A", "eyJ", "ghp_", "Invalid value: [", "Liveness probe ", "command.args", "\u2028"),
        *("a: Invalid value: ", "exec: ", "Mounting arguments: ", "a,password="),
    ],
)
def test_time_grows_with_the_length_and_not_with_its_square(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        event = body("v1", "Event", "e", "vision", message=text, note=text, list=[text])
        return cpu_seconds(lambda: redacted(event))

    assert seconds(65_536) < 64 * seconds(4_096)
