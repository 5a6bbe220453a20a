"""Training code of the smoke job in real containers: the workers find each other and add up their ranks.

Standard library only, because it is passed to the Python of an image as text. Rank 0 listens under the name and port
that the runtime gives every worker, so the names of pods, the pod network and the variables of the gang are used.
"""

import os
import socket
import time

_PATIENCE = 120.0


def _connected(address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, timeout=5)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _lead(port: int, workers: int) -> int:
    with socket.create_server(("", port)) as server:
        server.settimeout(_PATIENCE)
        others = [server.accept()[0] for _ in range(workers - 1)]
    total = sum(int(other.makefile("r").readline()) for other in others)
    for other in others:
        other.sendall(f"{total}\n".encode())
        other.close()
    return total


def _follow(address: tuple[str, int], rank: int) -> int:
    with _connected(address, time.monotonic() + _PATIENCE) as connection:
        connection.sendall(f"{rank}\n".encode())
        return int(connection.makefile("r").readline())


def main() -> None:
    """Add up the ranks of all workers, and fail unless the sum is right."""
    rank, workers = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
    address = os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])
    total = _follow(address, rank) if rank else _lead(address[1], workers)
    print(f"rank {rank} of {workers} on {socket.gethostname()}: the sum of all ranks is {total}", flush=True)
    if total != workers * (workers - 1) // 2:
        raise SystemExit(f"the sum must be {workers * (workers - 1) // 2}")


if __name__ == "__main__":
    main()
