"""Rego of a pull request: neither environment, nor network, nor files of the runner, and no evaluation without end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.engines.opa import capabilities
from trainyard.policy.engines.opa.bundle import Bundle, bundle_files
from trainyard.policy.engines.opa.capabilities import environment
from trainyard.policy.engines.opa.hanging_rules import NamedTimeouts
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.socket_client import SocketClient
from trainyard.policy.review import DecisionTimeoutError, DecisionUnavailableError

PACKAGE = "package trainyard.rules.abc_001\n\nimport rego.v1\n\n"
FORBIDDEN = {
    'violation contains http.send({"method": "get", "url": "http://127.0.0.1"})': "http.send",
    'violation contains http["\\u0073end"]({"method": "get", "url": "http://127.0.0.1"})': "http.send",
    "violation contains opa.runtime().env": "opa.runtime",
    'violation contains net.lookup_ip_addr("example.com")': "net.lookup_ip_addr",
    'violation contains json.match_schema({}, {"$ref": "http://127.0.0.1"})': "json.match_schema",
    "violation contains [x | x := opa.runtime().env[_]]": "opa.runtime",
}


def bundle(rego: str) -> Bundle:
    return bundle_files({"rules/ABC-001-a.rego": f"{PACKAGE}{rego}\n".encode()}, ["trainyard"])


def opa() -> Path:
    return program_path("opa")


@pytest.mark.cluster
@pytest.mark.parametrize(("rego", "function"), FORBIDDEN.items())
def test_a_rule_that_reads_the_runner_is_named(rego: str, function: str) -> None:
    with pytest.raises(TrainyardError) as raised, OpaServer(opa, bundle(rego)):
        pass
    (finding, *_) = raised.value.findings
    assert finding.path.startswith("rules/ABC-001-a.rego:")
    assert finding.message == f"{function} is not available to rules"
    assert "neither network nor environment" in raised.value.fix


@pytest.mark.cluster
@pytest.mark.parametrize(
    "rego",
    [
        "violation contains time.now_ns()",
        'violation contains rand.intn("a", 3)',
        'violation contains regex.find_n("a+", input.text, 2)',
        'violation contains io.jwt.decode(input.text) if input.text != ""',
        'violation contains crypto.sha256("http.send and opa.runtime() are words here")',
    ],
)
def test_functions_that_read_nothing_are_available(rego: str) -> None:
    with OpaServer(opa, bundle(rego)) as address:
        assert address.socket is not None


@pytest.mark.cluster
def test_a_rule_that_does_not_end_is_named() -> None:
    rego = (
        "package trainyard\n\nimport rego.v1\n\n"
        'decisions contains 1 if { not "ABC-001" in input.only; false }\n'
        'decisions contains x if { "ABC-001" in input.only; some x in numbers.range(1, 20000)\n'
        "some y in numbers.range(1, 20000)\nsome z in numbers.range(1, 20000); x * y * z == -1 }\n"
    )
    documents = {"requests": [], "only": ["QUE-001", "ABC-001"]}
    with OpaServer(opa, bundle_files({"a.rego": rego.encode()}, ["trainyard"])) as address:
        assert address.socket is not None
        clients = [SocketClient(address.socket, None, timeout=seconds) for seconds in (1.0, 3.0)]
        source = NamedTimeouts(*(client.decide_all for client in clients), ["ABC-001", "QUE-001"])  # type: ignore[arg-type]
        with pytest.raises(DecisionUnavailableError, match="the evaluation of rule ABC-001 does not end"):
            asyncio.run(source.decide_all(documents))


def test_only_rules_that_time_out_are_named() -> None:
    asked: list[Any] = []

    async def decide(documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked.append(documents["only"])
        if documents["only"] is None or "A" in documents["only"]:
            raise DecisionTimeoutError
        if "C" in documents["only"]:
            raise DecisionUnavailableError("broken")
        return []

    source = NamedTimeouts(decide, decide, ["A", "B", "C"])
    with pytest.raises(DecisionUnavailableError, match="rule A does not end"):
        asyncio.run(source.decide_all({"only": None}))
    assert asked == [None, ["A"], ["B"], ["C"]]
    assert asyncio.run(source.decide_all({"only": ["B"]})) == []


def test_the_environment_of_the_runner_is_not_that_of_the_server() -> None:
    variables = {"AWS_SECRET_ACCESS_KEY": "a", "GITHUB_TOKEN": "b", "HTTPS_PROXY": "c", "PATH": "d", "GOGC": "100"}
    assert environment(variables) == {"GOGC": "100"}


def test_capabilities_are_those_that_depend_on_the_review() -> None:
    listed = {
        "builtins": [
            {"name": "count"},
            {"name": "http.send", "nondeterministic": True},
            {"name": "time.now_ns", "nondeterministic": True},
            {"name": "new.builtin", "nondeterministic": True},
        ],
        "features": ["rego_v1"],
    }
    limited = json.loads(capabilities._limited(json.dumps(listed).encode()))
    assert limited == {
        "builtins": [{"name": "count"}, {"name": "time.now_ns", "nondeterministic": True}],
        "features": ["rego_v1"],
        "allow_net": [],
    }


@pytest.mark.cluster
def test_the_memory_of_the_server_is_limited() -> None:
    server = OpaServer(opa, bundle("violation contains 1"))
    with server:
        assert server._process is not None
        limits = Path(f"/proc/{server._process.pid}/limits").read_text()
        variables = Path(f"/proc/{server._process.pid}/environ").read_bytes()
    assert any(line.split()[:4] == ["Max", "address", "space", str(8 * 1024**3)] for line in limits.splitlines())
    assert b"PATH=" not in variables
