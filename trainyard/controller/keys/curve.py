"""CURVE keys of Flux: a CurveZMQ certificate."""

from __future__ import annotations

import base64
from typing import Final

from cryptography.hazmat.primitives.asymmetric import x25519

_RFC_1924: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85: Final = bytes.maketrans(_RFC_1924, _Z85)


def generate() -> dict[str, str]:
    """Return a new certificate."""
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
