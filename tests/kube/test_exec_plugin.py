from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from lightkube.config.models import UserExec

from tests.kube.fake_api import eventually
from trainyard.kube.api_errors import CredentialsError
from trainyard.kube.exec_plugin import ExecPlugin

VERSION = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


class Plugin:
    """A shell script that counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plugin"
        self._runs = folder / "runs"
        self.clock = Clock()

    def does(self, script: str) -> None:
        self.path.write_text(f"#!/bin/sh\necho run >> {self._runs}\n{script}\n")
        self.path.chmod(0o755)

    def prints(self, **status: object) -> None:
        self.does(f"echo '{json.dumps({'status': status})}'")

    def expiring(self, token: str, seconds: float) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock.now + seconds))
        self.prints(token=token, expirationTimestamp=stamp)

    def made(self, *, timeout: float = 10.0, retry: float = 0.0) -> ExecPlugin:
        return ExecPlugin(
            UserExec(apiVersion=VERSION, command=str(self.path)),
            str(self.path),
            timeout=timeout,
            retry=retry,
            clock=self.clock,
        )

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines())


@pytest.fixture
def script(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_token_is_cached_until_it_expires_and_renewed_ahead_in_the_background(script: Plugin) -> None:
    script.expiring("first", 600)
    plugin = script.made()
    assert (await plugin.current()).token == "first"
    script.clock.now += 539
    assert (await plugin.current()).token == "first"
    assert script.runs == 1
    script.expiring("second", 600)
    script.clock.now += 2
    assert (await plugin.current()).token == "first"
    await eventually(lambda: plugin._task is not None and plugin._task.done())
    assert (await plugin.current()).token == "second"
    assert script.runs == 2


async def test_a_token_without_an_expiry_is_cached_until_it_is_rejected(script: Plugin) -> None:
    script.prints(token="first")
    plugin = script.made()
    first = await plugin.current()
    script.prints(token="second")
    script.clock.now += 1e9
    assert await plugin.current() is first
    assert (await plugin.current(rejected=first)).token == "second"
    assert (await plugin.current(rejected=first)).token == "second"
    assert script.runs == 2


async def test_a_cached_token_is_used_while_a_renewal_fails_and_it_has_not_expired(script: Plugin) -> None:
    script.expiring("first", 600)
    plugin = script.made()
    first = await plugin.current()
    script.does("echo no network >&2; exit 3")
    assert await plugin.current(rejected=first) is first
    script.clock.now += 599
    assert await plugin.current() is first
    script.clock.now += 2
    with pytest.raises(CredentialsError, match="exited with 3: no network"):
        await plugin.current()
    script.expiring("second", 600)
    assert (await plugin.current()).token == "second"


async def test_many_requests_share_one_run_and_a_failure_is_not_repeated_at_once(script: Plugin) -> None:
    script.does("sleep 0.1; exit 1")
    plugin = script.made(retry=60)
    failed = await asyncio.gather(*(plugin.current() for _ in range(50)), return_exceptions=True)
    assert all(isinstance(error, CredentialsError) for error in failed)
    with pytest.raises(CredentialsError):
        await plugin.current()
    assert script.runs == 1


async def test_a_request_that_gives_up_does_not_end_the_run_others_need(script: Plugin) -> None:
    script.does("""sleep 0.2; echo '{"status": {"token": "t"}}'""")
    plugin = script.made()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await plugin.current()
    assert (await plugin.current()).token == "t"
    assert script.runs == 1


async def test_a_plugin_that_hangs_is_killed_with_what_it_started(script: Plugin, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script.does(f"sleep 300 & echo $$ $! > {pids}; wait")
    started = time.monotonic()
    with pytest.raises(CredentialsError, match=r"timed out after 0\.3 s"):
        await script.made(timeout=0.3).current()
    assert time.monotonic() - started < 3
    for pid in map(int, pids.read_text().split()):
        await eventually(lambda pid=pid: _ended(pid))


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


async def test_a_plugin_without_end_of_output_fills_no_memory(script: Plugin) -> None:
    script.does("yes | head -c 50000000")
    with pytest.raises(CredentialsError, match="exceeds 1048576 bytes"):
        await script.made().current()
    script.does("yes | head -c 50000000 >&2; exit 1")
    with pytest.raises(CredentialsError, match="exited with 1") as failed:
        await script.made().current()
    assert len(str(failed.value)) < 1000


async def test_a_plugin_cannot_prompt(script: Plugin) -> None:
    script.does(
        """read answer && exit 1
        (: < /dev/tty) 2>/dev/null && exit 2
        echo "$KUBERNETES_EXEC_INFO" | grep -q '"interactive":false' || exit 3
        echo '{"status": {"token": "t"}}'"""
    )
    assert (await script.made().current()).token == "t"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "not an ExecCredential"),
        ("[]", "not an ExecCredential"),
        ('{"status": null}', "not an ExecCredential"),
        ('{"status": {}}', "neither a token nor"),
        ('{"status": {"token": 5}}', "must be strings"),
        ('{"status": {"clientCertificateData": "x"}}', "together"),
        ('{"status": {"token": "t", "expirationTimestamp": "tomorrow"}}', "'tomorrow' is not"),
        ('{"status": {"token": "t", "expirationTimestamp": 12}}', "is not an RFC 3339"),
        ('{"status": {"token": "t", "expirationTimestamp": {"x": 1}}}', "is not an RFC 3339"),
    ],
)
async def test_unusable_output_is_an_error_of_the_credentials(script: Plugin, output: str, said: str) -> None:
    script.does(f"echo '{output}'")
    with pytest.raises(CredentialsError, match=said) as failed:
        await script.made().current()
    assert str(script.path) in str(failed.value)


async def test_a_missing_plugin_names_the_hint(tmp_path: Path) -> None:
    plugin = ExecPlugin(UserExec(apiVersion=VERSION, command="x", installHint="Get it"), str(tmp_path / "x"))
    with pytest.raises(CredentialsError, match="Get it"):
        await plugin.current()
