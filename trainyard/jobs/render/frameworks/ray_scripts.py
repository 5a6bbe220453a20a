"""Scripts of the pods of a Ray cluster; ``@PORT@`` and ``@OPTIONS@`` are placeholders."""

from __future__ import annotations

from typing import Final

_SETUP: Final = """set -u
ulimit -n 65536 2>/dev/null || true
trap 'exit 143' TERM INT
"""

_AWAIT_NODES: Final = """import os, time, ray
ray.init(log_to_driver=False)
expected = int(os.environ["RAY_NODE_COUNT"])
while sum(node["Alive"] for node in ray.nodes()) < expected:
    time.sleep(1)
"""

# The first line is a header: a pod without a route for IPv4 has no second one.
_ANY_ADDRESS: Final = """any=0.0.0.0
if [ -r /proc/net/route ] && ! { read -r _ && read -r _; } </proc/net/route; then any=::; fi
"""

_SERVE: Final = """ray start --head --port=@PORT@ --dashboard-host="$any" @OPTIONS@ --block &
wait $!
exit $?
"""

_LEAD: Final = f"""{_ANY_ADDRESS}if [ $# -eq 0 ]; then
{_SERVE}fi
ray start --head --port=@PORT@ --dashboard-host="$any" @OPTIONS@ || exit 1
python3 -c '{_AWAIT_NODES}' || exit 1
exec "$@"
"""

_JOIN: Final = """while true; do
  until ray health-check --address "$RAY_ADDRESS" >/dev/null 2>&1; do
    echo "waiting for the Ray head at $RAY_ADDRESS"
    sleep 2 & wait $!
  done
  ray start --address="$RAY_ADDRESS" @OPTIONS@ --block &
  wait $!
  echo "left the cluster with exit status $?; joining again"
  ray stop --force >/dev/null 2>&1
  sleep 2 & wait $!
done
"""

HEAD: Final = _SETUP + _LEAD
"""Start the head, wait for all nodes to join, and execute the driver; without a driver, run the head in foreground."""

WORKER: Final = _SETUP + _JOIN
"""Join the head, and rejoin after its restarts; workers are deleted when the job succeeds with its driver."""

NODE: Final = f"""{_SETUP}if [ "$JOB_COMPLETION_INDEX" = 0 ]; then
{_LEAD}fi
{_JOIN}"""
"""Run the head in pod 0 and workers in the other pods."""
