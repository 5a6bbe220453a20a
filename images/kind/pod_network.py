#!/usr/bin/python3.11
"""Pod network of one node of a kind cluster: CNI configuration, routes to the pods of other nodes, masquerading.

kind's own program for it is in no Go module. A node's pods get addresses of ``spec.podCIDR``; packets to other nodes'
pods are routed through the address of their node, and only packets that leave the cluster get the node's address.
"""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from ipaddress import ip_network
from pathlib import Path

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONFIGURATION = Path("/etc/cni/net.d/10-kind.conflist")
_SECONDS = 5


def nodes() -> list[dict]:
    """Return the nodes of the cluster, from the API server."""
    request = urllib.request.Request(
        f"https://{os.environ['CONTROL_PLANE_ENDPOINT']}/api/v1/nodes",
        headers={"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text().strip()}"},
    )
    context = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
        return json.load(answer)["items"]


def configuration(subnet: str, mtu: int) -> str:
    """Return the configuration of the node's pod network."""
    address = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": subnet}]],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": address, "mtu": mtu},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.3.1", "name": "kind", "plugins": plugins})


def routes(items: list[dict], own: str) -> dict[str, str]:
    """Return the address of the node by range of pods, for all nodes but one."""
    found = {}
    for item in items:
        subnet = item["spec"].get("podCIDR")
        address = next((each["address"] for each in item["status"]["addresses"] if each["type"] == "InternalIP"), None)
        if item["metadata"]["name"] != own and subnet and address:
            found[subnet] = address
    return found


def masquerade(pods: str) -> str:
    """Return the rules that give packets which leave the cluster the address of their node."""
    return (
        "table ip trainyard-kind\n"
        "delete table ip trainyard-kind\n"
        "table ip trainyard-kind {\n"
        "  chain postrouting {\n"
        "    type nat hook postrouting priority srcnat;\n"
        f'    ip saddr {pods} ip daddr != {pods} oifname != "lo" masquerade\n'
        "  }\n"
        "}\n"
    )


def default_mtu() -> int:
    """Return the MTU of the interface of the default route; 1500 if there is none."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        interface, destination = line.split()[:2]
        if destination == "00000000":
            return int(Path(f"/sys/class/net/{interface}/mtu").read_text())
    return 1500


def main() -> None:
    """Keep the node's network up to date."""
    own, pods = os.environ["NODE_NAME"], str(ip_network(os.environ["POD_SUBNET"]))
    subprocess.run(["nft", "-f", "-"], input=masquerade(pods), text=True, check=True)  # noqa: S607
    present: dict[str, str] = {}
    while True:
        try:
            items = nodes()
        except OSError as error:
            print(f"the API server does not respond: {error}", file=sys.stderr, flush=True)
            time.sleep(_SECONDS)
            continue
        subnet = next((each["spec"].get("podCIDR") for each in items if each["metadata"]["name"] == own), None)
        if subnet and not _CONFIGURATION.exists():
            written = _CONFIGURATION.with_suffix(".new")
            written.write_text(configuration(subnet, default_mtu()))
            written.rename(_CONFIGURATION)
            print(f"pods of this node have addresses of {subnet}", flush=True)
        wanted = routes(items, own)
        for destination, address in wanted.items():
            if present.get(destination) != address:
                subprocess.run(["ip", "route", "replace", destination, "via", address], check=True)  # noqa: S603, S607
                print(f"pods in {destination} are reached through {address}", flush=True)
        for destination in present.keys() - wanted.keys():
            subprocess.run(["ip", "route", "delete", destination], check=False)  # noqa: S603, S607
        present = wanted
        time.sleep(_SECONDS)


if __name__ == "__main__":
    main()
