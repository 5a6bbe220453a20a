"""Arguments of Volcano's plug-ins: options by name, what becomes of each, and a private key that nothing prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard.jobs.convert.field_finding import Fidelity
from trainyard.jobs.convert.source import LegacySource

_PLUGINS: Final = "spec.plugins"
_PRIVATE: Final = "ssh-private-key"
_HIDDEN: Final = "(hidden)"
_TRUE: Final = ("1", "t", "true")
_SAME: Final = Fidelity.LOSSLESS
_CHANGED: Final = Fidelity.CHANGED
_ROLE: Final = (_SAME, "the task of this role", "")
_PORT: Final = (_CHANGED, "the framework's own port is used", "read it from the variables")
_WAITS: Final = (_CHANGED, "the workers wait for the master by themselves", "")
_FLAGS: Final = {
    "env": {},
    "hcclrank": {"master": _ROLE, "worker": _ROLE},
    "mpi": {
        "master": _ROLE,
        "worker": _ROLE,
        "port": (_CHANGED, "the SSH servers listen on the port of their command", ""),
    },
    "pytorch": {
        "master": _ROLE,
        "worker": _ROLE,
        "port": _PORT,
        "wait-master-enabled": _WAITS,
        "wait-master-image": _WAITS,
        "wait-master-timeout": _WAITS,
    },
    "ray": {
        "head": _ROLE,
        "worker": _ROLE,
        "headContainer": (_SAME, "the container in which Ray starts", ""),
        "workerContainer": (_SAME, "the container in which Ray starts", ""),
        "port": _PORT,
        "dashboardPort": _PORT,
        "clientPort": _PORT,
    },
    "ssh": {
        "no-root": (_CHANGED, "has no effect on where the keys are", "set ssh-key-file-path to the user's own folder"),
        "ssh-key-file-path": (_SAME, "mpi.sshAuthMountPath", ""),
        _PRIVATE: (
            Fidelity.LOST,
            "is not carried over: each job has keys of its own",
            "make a new key for what is outside the job, because each reader of the manifest has this one",
        ),
        "ssh-public-key": (_CHANGED, "each job has keys of its own", ""),
    },
    "svc": {
        "disable-network-policy": (_SAME, "the conversion makes no NetworkPolicy", ""),
        "publish-not-ready-addresses": (_SAME, "what the Service of a JobSet does", ""),
    },
    "tensorflow": {"ps": _ROLE, "worker": _ROLE, "chief": _ROLE, "evaluator": _ROLE, "port": _PORT},
}


def read_flags(source: LegacySource, name: str) -> dict[str, str]:
    """Return the options of a plug-in, given as ``--name=value`` or ``--name value``; a private key is hidden."""
    arguments = source.items(f"{_PLUGINS}.{name}", str)
    found: dict[str, str] = {}
    for index, flag, value, place in _options(arguments):
        found[flag] = _HIDDEN if flag == _PRIVATE else value
        if flag == _PRIVATE and value:
            arguments[place] = _HIDDEN if place != index else f"--{flag}={_HIDDEN}"
    return found


def note_flags(source: LegacySource, name: str, *, with_port: bool = False) -> None:
    """Note what becomes of each argument of a plug-in.

    Parameters
    ----------
    with_port
        Whether the variables of the pods have the port of the arguments.
    """
    known = _FLAGS.get(name)
    if known is None:
        return
    for index, flag, _, _ in _options(source.items(f"{_PLUGINS}.{name}", str)):
        path = f"{_PLUGINS}.{name}[{index}]"
        unknown = (Fidelity.LOST, f"--{flag} is not known here", "remove it, or set its effect in the runtime")
        fidelity, message, fix = known.get(flag, unknown)
        if flag == "port" and with_port:
            fidelity, message = _SAME, "port in the variables of the pods"
        if fidelity is _SAME:
            source.same(path, message)
        elif fidelity is _CHANGED:
            source.changed(path, message, fix)
        else:
            source.lost(path, message, fix)


def is_set(flags: dict[str, str], name: str) -> bool:
    """Return whether a switch is on."""
    return flags.get(name, "").lower() in _TRUE


def _options(arguments: Sequence[str]) -> Iterator[tuple[int, str, str, int]]:
    """Yield position, name, value and the position of the value of each option."""
    for index, argument in enumerate(arguments):
        if not argument.startswith("-"):
            continue
        flag, equals, value = argument.lstrip("-").partition("=")
        after = arguments[index + 1 : index + 2]
        if equals:
            yield index, flag, value, index
        elif after and (not after[0].startswith("-") or flag == _PRIVATE):
            yield index, flag, after[0], index + 1
        else:
            yield index, flag, "true", index
