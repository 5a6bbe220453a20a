"""A policy server whose rules may be replaced, and the program's own gates: for tests of the Rego only."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

HARNESS: Final = """package harness

import rego.v1

# The answers to all documents of a suite.
decisions := [answer |
	some document in data.documents[input.suite]
	answer := decided with input as document
]

default decided := null

decided := data.trainyard.decision if {
	not input.requests
	not input.off
	not "index" in object.keys(input)
}

decided := answer if {
	"index" in object.keys(input)
	answer := data.trainyard.decision with data.trainyard.index as input.index
}

# No shipped rule is off by itself.
decided := answer if {
	input.off
	answer := data.trainyard.decision with data.trainyard.off as input.off
}

decided := data.trainyard.decisions if input.requests

# The findings of one package's rule for these documents of any object.
violations := [answer |
	name := input.package
	some document in data.documents[input.suite]
	answer := {[each.path, each.message] | some each in data.trainyard.rules[name].violation} with input as document
]

# Answers that are short enough to be compared thousands of times: by suite, and by package with its suite.
digests[suite] := crypto.sha256(json.marshal(answers)) if {
	some suite in input.suites
	answers := decisions with input as {"suite": suite}
}

packages[name] := crypto.sha256(json.marshal(answers)) if {
	some name, suite in input.packages
	answers := violations with input as {"suite": suite, "package": name}
}

# Whether the entry point asks the rule at all.
asked := [answer |
	id := input.suite
	some document in data.documents[id]
	answer := asks(id) with input as document
]

asking := [answer |
	some document in data.documents[input.suite]
	answer := {id | some id, _ in data.trainyard.evaluated_rules} with input as document
]

asks(id) if {
	data.trainyard.evaluated_rules[id]
} else := false
"""


class RegoServer:
    """A server for the time of a ``with`` block.

    Parameters
    ----------
    program
        The ``opa`` program.
    folder
        Where its files are written.
    files
        Rego by name.
    data
        What lies below ``data``.
    """

    def __init__(self, program: Path, folder: Path, files: Mapping[str, str], data: Mapping[str, Any]) -> None:
        self._program, self._folder, self._files, self._data = program, folder, files, data
        self._process: subprocess.Popen[bytes] | None = None
        self._connection = http.client.HTTPConnection("127.0.0.1")

    def __enter__(self) -> RegoServer:
        for name, text in {**self._files, "harness.rego": HARNESS}.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (self._folder / "data.json").write_text(json.dumps(self._data))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(self._program, "run", "--server", "--addr", f"127.0.0.1:{port}", "--disable-telemetry"),
                    *("--optimize-store-for-read-speed", "--log-level=error"),
                    *("data.json", "harness.rego", *self._files),
                ],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self._request("GET", "/health")[0] == 200:
                    return self
            except OSError:
                self._connection.close()
                time.sleep(0.05)
        self.__exit__(None, None, None)
        raise AssertionError((self._folder / "log").read_text())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def put(self, name: str, text: str) -> bool:
        """Replace or add a file; tell whether it compiles together with the others."""
        status, answer = self._request("PUT", f"/v1/policies/{quote(name)}", text.encode())
        assert status in (200, 400), answer
        return status == 200

    def remove(self, name: str) -> None:
        """Remove a file."""
        status, answer = self._request("DELETE", f"/v1/policies/{quote(name)}")
        assert status == 200, answer

    def ask(self, question: str, *, strict: bool = True, **content: Any) -> Any:
        """Return the harness's answer, None where the evaluation ended in an error.

        An error of a built-in function is one if ``strict``; else the value is undefined.
        """
        body = json.dumps({"input": content}).encode()
        status, answer = self._request(
            "POST", f"/v1/data/harness/{question}?strict-builtin-errors={str(strict).lower()}", body
        )
        return json.loads(answer)["result"] if status == 200 else None

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body=body)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def run(program: Path, folder: Path, *arguments: str | Path, files: Iterable[str] = ()) -> str:
    """Return what the program prints; fail where it does."""
    result = subprocess.run(
        [program, *arguments, *files], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def without_errors(program: Path, folder: Path, names: Iterable[str], shared: Iterable[str]) -> list[str]:
    """Return the files that compile; a stage of the compiler reports errors only if the one before it has none."""
    left, others = list(names), list(shared)
    while left:
        result = subprocess.run(
            [program, "check", "--format=json", "--max-errors=100000", *others, *left],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if result.returncode == 0:
            break
        wrong = {each["location"]["file"] for each in json.loads(result.stdout or result.stderr)["errors"]}
        assert wrong & set(left), result.stdout + result.stderr
        left = [name for name in left if name not in wrong]
    return left
