"""Record where the policy server spends its time, for the compiler that builds it (``toolchain/opa/profile.pgo``).

    python -m benchmarks.opa_profile [--seconds 30]

To be run again when OPA is raised; until then the compiler uses it as far as its functions still exist. A new profile
is a new program: every user builds the server again.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import orjson

from benchmarks.policy import STACK, asked, write_corpus
from benchmarks.recording import ROOT
from trainyard.local.cluster.go import PROFILE
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.check.sources import read_sources
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.settings.stack_loader import load_stack

FILE = ROOT / "toolchain" / "opa" / PROFILE
MANIFESTS = 300
DECISIONS = "/v1/data/trainyard/decisions"


def main() -> None:
    """Ask the server what `trainyard check` asks, for a while, and write its profile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=30)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder / "manifests", MANIFESTS)
        questions = asked(read_sources([str(folder / "manifests")], stdin=str), load_stack(STACK))
        build_bundle().write(folder / "bundle.tar.gz")
        # The profile names the program's file: a copy says nothing of this machine.
        program = shutil.copy2(program_path("opa"), folder / "opa")
        address = free_address()
        command = [program, "run", "--server", "--addr", address, "--pprof", "--disable-telemetry", "--log-level=error"]
        command += ["--optimize-store-for-read-speed", "--bundle", folder / "bundle.tar.gz"]
        with subprocess.Popen(command, env={**os.environ, "GOGC": "400"}) as server:
            try:
                await_answer(address, server)
                bodies = [orjson.dumps({"input": question}) for question in questions]
                FILE.write_bytes(profile(address, bodies, seconds))
            finally:
                server.terminate()
    print(f"{FILE.relative_to(ROOT)}: {FILE.stat().st_size} bytes")


def free_address() -> str:
    """Return an address that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host, port = probe.getsockname()
    return f"{host}:{port}"


def await_answer(address: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server has its rules, as long as it runs."""
    while server.poll() is None:
        try:
            with urlopen(f"http://{address}/health?bundles"):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"The policy server ended with status {server.returncode}; what it said stands above.")


def profile(address: str, bodies: list[bytes], seconds: int) -> bytes:
    """Return the profile of a server that is asked without a pause."""
    found: list[bytes] = []

    def record() -> None:
        with urlopen(f"http://{address}/debug/pprof/profile?seconds={seconds}") as answer:
            found.append(answer.read())

    recorder = threading.Thread(target=record)
    recorder.start()
    connection = http.client.HTTPConnection(address)
    while recorder.is_alive():
        for body in bodies:
            connection.request("POST", DECISIONS, body, {"Content-Type": "application/json"})
            connection.getresponse().read()
    if not found:
        raise SystemExit("The policy server gave no profile; what it said stands above.")
    return found[0]


if __name__ == "__main__":
    main()
