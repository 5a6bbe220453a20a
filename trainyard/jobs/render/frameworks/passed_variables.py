"""Variables that mpirun does not pass to the processes on other hosts.

Open MPI starts them over SSH, and an SSH server gives a session nothing of its container's environment. mpirun itself
passes its own variables, and those that option ``-x`` or the parameter ``mca_base_env_list`` names. Hydra, the launcher
of Intel MPI and MPICH, and ``horovodrun`` pass all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from trainyard.api import Body
from trainyard.checks.finding import Finding

_MPIRUN: Final = re.compile(r"(?:^|[\s/;&|(\"'])(?:mpirun|mpiexec|orterun|prterun)(?:\s|$)")
_PASSED: Final = re.compile(r"(?:^|[\s\"'])--?x[\s=]+[\"']?(\w+)")
_LIST: Final = "mca_base_env_list"
_OWN: Final = ("OMPI_", "PRTE_", "PMIX_")


def unpassed_variables(variables: Sequence[Body], command: Sequence[str]) -> Iterator[Finding]:
    """Yield the variables of a TrainJob that an mpirun of Open MPI keeps on its own host.

    Parameters
    ----------
    command
        Command and arguments of the launcher. If it calls a script, nothing is reported.
    """
    line = " ".join(command)
    names = [str(variable.get("name")) for variable in variables]
    if not _MPIRUN.search(line) or _LIST in line or any(_LIST in name for name in names):
        return
    passed = set(_PASSED.findall(line))
    kept = [name for name in names if name not in passed and not name.startswith(_OWN)]
    if kept:
        yield Finding.warning(
            "spec.trainer.env",
            f"mpirun does not pass {', '.join(kept)} to the processes on other hosts, which it starts over SSH",
            f"add {' '.join(f'-x {name}' for name in kept)} to mpirun",
        )
