"""``python -m trainyard.local.cluster.supervisor --name NAME``; started by ``trainyard cluster up``."""

from __future__ import annotations

import argparse
import sys

from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import cluster_folder
from trainyard.local.cluster.supervisor.daemon import run


def main() -> int:
    """Run the supervisor of one cluster."""
    parser = argparse.ArgumentParser(prog="trainyard-supervisor", description="Supervise an embedded control plane.")
    parser.add_argument("--name", required=True, help="name of the cluster")
    try:
        return run(cluster_folder(parser.parse_args().name))
    except TrainyardError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
