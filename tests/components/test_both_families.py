"""Servers of the platform in clusters of IPv4, of IPv6 and of both."""

from __future__ import annotations

import inspect
import json
import re
import socket

import pytest

from tests.components.recording import Recording
from trainyard.cli import console as console_command
from trainyard.insight.console import cluster_server
from trainyard.insight.console.page_server import bound
from trainyard.listening import ANY_ADDRESS, has_address, url_host


def test_services_have_an_address_of_each_family_of_the_cluster(local: Recording, services: Recording) -> None:
    for recording in (local, services):
        found = {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in recording.of("Service")}
        assert found
        assert {name for name, spec in found.items() if spec.get("ipFamilyPolicy") != "PreferDualStack"} == set()


def test_no_program_gets_an_address_of_one_family(local: Recording, services: Recording) -> None:
    for recording in (local, services):
        for each in recording.of("Deployment"):
            for container in each.inputs["spec"]["template"]["spec"]["containers"]:
                given = json.dumps([container.get("command"), container.get("args"), container.get("env")])
                assert not re.search(r"\b0\.0\.0\.0\b|\b127\.0\.0\.1\b", given), (each.name, given)
                for probe in ("readinessProbe", "livenessProbe"):
                    assert "host" not in (container.get(probe) or {}).get("httpGet", {})


def test_the_console_listens_on_both_families() -> None:
    assert inspect.signature(cluster_server.serve_cluster).parameters["host"].default == ANY_ADDRESS
    assert inspect.signature(console_command._serve).parameters["listen"].default == ANY_ADDRESS
    with bound(ANY_ADDRESS, 0) as listening:  # Bound only: a test does not listen beyond this machine.
        assert listening.family == (socket.AF_INET6 if has_address("::1") else socket.AF_INET)


@pytest.mark.parametrize(("host", "expected"), [("::1", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]")])
def test_an_address_in_a_url_is_in_brackets_where_it_must_be(host: str, expected: str) -> None:
    assert url_host(host) == expected
