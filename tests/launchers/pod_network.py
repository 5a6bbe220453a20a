"""Pods as network, host name and mount namespaces, in which launchers reach each other through a stub of SSH.

Run as a program inside new namespaces: it reads a plan (JSON) from standard input, starts the pods with their commands,
and exits with the status of one of them; the end of the program ends its pods. Each pod has its own host name,
interface and address, and a host file as the kubelet writes it: its own fully qualified name and short name. Names of
other pods resolve as the DNS server of a cluster answers: fully qualified, or with the subdomain, never the short name
alone.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SSH = """\
#!/bin/sh
# Starts the command in the namespaces of the pod, with a new environment as a server of SSH does.
host=
while [ $# -gt 0 ]; do
  case $1 in
    -[bcDEeFIiJLlmOoPpQRSWw]) shift 2 ;;
    -*) shift ;;
    *) [ -z "$host" ] || break; host=$1; shift ;;
  esac
done
echo "$(hostname) $host" >> "{folder}/ssh.log"
address=$(getent ahostsv4 "$host" | head -1 | cut -d" " -f1)
[ -n "$address" ] && [ -f "{folder}/pids/$address" ] || {{ echo "ssh: cannot resolve or reach $host" >&2; exit 255; }}
exec nsenter --target "$(cat "{folder}/pids/$address")" --net --uts --mount -- \
  env -i HOME=/root SHELL=/bin/sh TMPDIR=/dev/shm "PATH={path}" /bin/sh -c "$*"
"""

BASE = {"HOME": "/root", "SHELL": "/bin/sh", "TMPDIR": "/dev/shm"}
"""Temporary files are in memory of the pod: pods share /tmp, where sockets of earlier runs have the same names."""


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def hosts_file(pods: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> str:
    """Return /etc/hosts of a pod."""
    lines = ["127.0.0.1 localhost", f"{own['address']} {own['fqdn']} {own['hostname']}"]
    lines += [f"{pod['address']} {pod['fqdn']} {pod['name']}" for pod in pods]
    return "".join(f"{line}\n" for line in lines)


def start(pod: Mapping[str, Any], number: int, plan: Mapping[str, Any], folder: Path) -> int:
    """Start a pod and return the id of the process that holds its namespaces."""
    hosts = folder / f"hosts-{number}"
    hosts.write_text(hosts_file(plan["pods"], pod))
    (folder / "resolv.conf").write_text("")
    mounts = [
        f"mount --bind {shlex.quote(str(hosts))} /etc/hosts",
        f"mount --bind {shlex.quote(str(folder / 'resolv.conf'))} /etc/resolv.conf",
        "mount -t tmpfs none /dev/shm",
    ]
    script = "; ".join(["set -e", f"hostname {pod['hostname']}", *mounts, "echo ready", "exec sleep 600"])
    holder = subprocess.Popen(
        ["unshare", "--net", "--uts", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != "ready\n":
        raise SystemExit(f"pod {pod['name']} does not start")
    enter = ("nsenter", "--target", str(holder.pid), "--net", "--")
    run("ip", "link", "add", f"host{number}", "type", "veth", "peer", "name", f"pod{number}")
    run("ip", "link", "set", f"host{number}", "master", "bridge", "up")
    run("ip", "link", "set", f"pod{number}", "netns", str(holder.pid), "name", plan["interface"])
    run(*enter, "ip", "link", "set", "lo", "up")
    run(*enter, "ip", "address", "add", f"{pod['address']}/16", "dev", plan["interface"])
    run(*enter, "ip", "link", "set", plan["interface"], "up")
    return holder.pid


def main() -> int:
    plan = json.load(sys.stdin)
    folder = Path(plan["folder"])
    (folder / "pids").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "ssh.log").touch()
    search = f"{folder}/bin:{plan['path']}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    ssh = folder / "bin" / "ssh"
    ssh.write_text(SSH.format(folder=folder, path=search))
    ssh.chmod(0o755)
    run("ip", "link", "add", "bridge", "type", "bridge")
    run("ip", "link", "set", "bridge", "up")
    pids = {}
    for number, pod in enumerate(plan["pods"]):
        pids[pod["name"]] = start(pod, number, plan, folder)
        # The launcher runs the job's command and no server of SSH.
        if pod["name"] != plan["main"]:
            (folder / "pids" / pod["address"]).write_text(str(pids[pod["name"]]))
    programs = {
        pod["name"]: subprocess.Popen(
            [
                *("nsenter", "--target", str(pids[pod["name"]]), "--net", "--uts", "--mount", "--", "env", "-i"),
                *(f"{name}={value}" for name, value in {**BASE, "PATH": search, **pod["environment"]}.items()),
                *pod["command"],
            ],
            stdin=subprocess.DEVNULL,
        )
        for pod in plan["pods"]
        if pod.get("command")
    }
    try:
        return programs[plan["main"]].wait(timeout=plan["seconds"])
    except subprocess.TimeoutExpired:
        print(f"timed out: {programs[plan['main']].args}", file=sys.stderr)
        return 124


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
