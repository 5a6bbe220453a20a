"""Records of built programs: a keyed hash of each, compared before every use.

CI restores the cache from a server, and its disk may be shared or damaged. A plain hash beside a program can be changed
together with it. The key of these hashes is not in the cache, so a changed or exchanged program and a forged record are
detected; such a program is built again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import cache_home, config_home, exclusive, write_private

KEY_VARIABLE = "TRAINYARD_CACHE_KEY"
"""Variable with the key, for CI: a secret that is equal in every run. Unset: a random key in the user's folder."""

_SHORTEST = 16


def record(program: Path) -> None:
    """Record a program that was just built.

    Raises
    ------
    TrainyardError
        The key or the record cannot be written.
    """
    write_private(_record_file(program), _hash(program, _made_key()))


def seal(text: str) -> str:
    """Return the keyed hash of a record of other cached files, which contains their hashes.

    Raises
    ------
    TrainyardError
        The key cannot be written.
    """
    return hmac.new(_made_key(), text.encode(), "sha256").hexdigest()


def _made_key() -> bytes:
    key = _key()
    if key is None:
        file = _key_file()
        with exclusive(file.with_name(f".{file.name}.lock")):
            key = _key()
            if key is None:
                key = secrets.token_hex(32).encode()
                write_private(file, key.decode())
    return key


def is_recorded(program: Path) -> bool:
    """Return whether a program is the one that was built, from its content; about 0.1 s for 100 MB."""
    key = _key()
    if key is None:
        return False
    try:
        found = _record_file(program).read_bytes()
        return hmac.compare_digest(found, _hash(program, key).encode())
    except OSError:
        return False


def require_recorded(program: Path) -> None:
    """Raise if a program is in the cache of built programs and is not the one that was built.

    Raises
    ------
    TrainyardError
        The program, or its record, was changed.
    """
    if program.is_relative_to(cache_home() / "toolchain") and not is_recorded(program):
        raise TrainyardError(
            f"{program} is not the program that was built: it or its record was changed",
            fix="run `trainyard cluster toolchain`, which builds it again; find out what changed it",
        )


def _record_file(program: Path) -> Path:
    return program.parent.parent / "records" / program.name


def _hash(program: Path, key: bytes) -> str:
    """Return the keyed hash of a program, which includes its group, version and name."""
    with program.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    name = f"{program.parent.parent.name}\0{program.name}\0{content}"
    return hmac.new(key, name.encode(), "sha256").hexdigest()


def _key() -> bytes | None:
    if given := os.environ.get(KEY_VARIABLE):
        if len(given) < _SHORTEST:
            raise TrainyardError(
                f"{KEY_VARIABLE} has {len(given)} characters, at least {_SHORTEST} are needed",
                fix="use a random value, such as the output of `openssl rand -hex 32`",
            )
        return given.encode()
    try:
        found = _key_file().read_bytes()
    except OSError:
        return None
    return found if len(found) >= _SHORTEST else None


def _key_file() -> Path:
    return config_home() / "cache-key"
