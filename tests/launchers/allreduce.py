"""A program of MPI: print rank, size, host, and the sum of all ranks."""

from __future__ import annotations

import ctypes
import socket
import sys

mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)


def constant(open_mpi: str, mpich: int) -> ctypes.c_void_p | ctypes.c_int:
    """Return a constant of MPI: an address in Open MPI, a number in MPICH."""
    if not hasattr(mpi, open_mpi):
        return ctypes.c_int(mpich)
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, open_mpi)))


world = constant("ompi_mpi_comm_world", 0x44000000)
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
integer, addition = constant("ompi_mpi_int", 0x4C000405), constant("ompi_mpi_op_sum", 0x58000003)
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, addition, world)
print(f"rank={rank.value} size={size.value} host={socket.gethostname()} sum={total.value}", flush=True)
mpi.MPI_Finalize()
