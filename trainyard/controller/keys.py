"""Keys of a job, generated once: SSH keys of MPI jobs, CurveZMQ keys of Flux jobs.

Rendering is deterministic and keys are random, so they are generated here. They are stored only in a Secret.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519

__all__ = ["generate"]

_RFC_1924: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85: Final = bytes.maketrans(_RFC_1924, _Z85)


def generate(kind: str) -> dict[str, str]:
    """Return new keys as the data of a Secret.

    Parameters
    ----------
    kind
        ``ssh`` (ECDSA P-521) or ``curve`` (a CurveZMQ certificate), declared by the framework.
    """
    return _GENERATORS[kind]()


def _ssh() -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {"ssh-privatekey": private.decode(), "ssh-publickey": f"{public.decode()}\n"}


def _curve() -> dict[str, str]:
    key = x25519.X25519PrivateKey.generate()
    public, secret = _z85(key.public_key().public_bytes_raw()), _z85(key.private_bytes_raw())
    lines = (
        "metadata",
        '    name = "trainyard"',
        "curve",
        f'    public-key = "{public}"',
        f'    secret-key = "{secret}"',
    )
    return {"curve.cert": "\n".join((*lines, ""))}


def _z85(data: bytes) -> str:
    """Encode in ZeroMQ's base 85: RFC 1924 in four-byte groups, with another alphabet."""
    return base64.b85encode(data).translate(_TO_Z85).decode()


_GENERATORS: Final[Mapping[str, Callable[[], dict[str, str]]]] = {"ssh": _ssh, "curve": _curve}
