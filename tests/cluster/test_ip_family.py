"""A platform on a control plane of IPv6: everything listens on ::1, and a job completes."""

from __future__ import annotations

import ipaddress
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import live
from tests.support import environment, require, stack_file, trainyard
from trainyard.listening import has_address

pytestmark = pytest.mark.cluster


@pytest.mark.skipif(not has_address("::1"), reason="this machine has no ::1")
def test_a_platform_of_ipv6_installs_and_a_job_completes(state_home: Path, tmp_path: Path) -> None:
    env, config = environment(state_home), stack_file(tmp_path, "six")
    with ExitStack() as ends:
        ends.callback(trainyard, "cluster", "down", "--name", "six", "--delete", env=env)
        require(trainyard("cluster", "up", "--name", "six", "--ip-family", "ipv6", env=env))
        assert "Complete=True" in require(trainyard("quickstart", "--config-file", str(config), env=env))
        cluster = live("six", config, env)
        status = json.loads(require(cluster.trainyard("cluster", "status", "--name", "six", "-o", "json")))
        assert status["healthy"] is True
        assert {each["address"].rpartition(":")[0] for each in status["processes"]} - {""} == {"[::1]"}
        services = cluster.get("services", "-A")["items"]
        addresses = [address for each in services for address in each["spec"].get("clusterIPs", ())]
        pods = cluster.get("pods", "-A")["items"]
        addresses += [each["status"]["podIP"] for each in pods if each["status"].get("podIP")]
        assert {ipaddress.ip_address(each).version for each in addresses if each != "None"} == {6}
        urls = [
            each["clientConfig"]["url"]
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
            for configuration in cluster.get(kind)["items"]
            for each in configuration["webhooks"]
        ]
        assert urls
        assert {each.partition("]:")[0] for each in urls} == {"https://[::1"}
        refused = trainyard("cluster", "up", "--name", "six", "--ip-family", "ipv4", env=env)
        assert (refused.returncode, "was created with ipv6" in refused.stderr) == (2, True)
