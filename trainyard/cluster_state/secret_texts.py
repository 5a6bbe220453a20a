"""Secrets inside texts: values of options, keys, tokens, and users and queries of addresses.

Every pattern is linear in the length of the text, which a tenant chooses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_WORDS: Final = (
    *("token", "secret", "password", "passwd", "passphrase", "credential", "bearer"),
    *("apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "accountkey"),
)
_NAMES: Final = ("name", "namespace", "path", "file", "ref", "version", "class", "policy")
"""Endings of names whose values only refer to a secret."""
_SEPARATORS: Final = str.maketrans("", "", "-_.")
_KEY_BLOCK: Final = re.compile(r"-----BEGIN .*", re.DOTALL)
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/=_]{100,}|(?:LS0tLS1CRUdJTi|0tLS0tQkVHSU4g|tLS0tLUJFR0lOI)[\s\S]*")
"""Long base64, and base64 of a key block, which may be wrapped."""
_WELL_KNOWN: Final = re.compile(r"\b(?:gh[a-z]_|github_pat_|glpat-|hf_|sk-|xox[a-z]-|AKIA|ASIA|AIza|eyJ)[\w.-]{12,}")
_WORD: Final = re.compile(r"\S+")
_OPTION: Final = re.compile(r"(?<=[,;])([\w.-]+)=[^,;]+")
"""An option after others of the same word, as of a mount."""
_ADDRESS: Final = re.compile(r"""[^\s"']+""")
_POSSIBLE_SECRET: Final = re.compile(r"[\s=?]|://|^-|[A-Za-z0-9+/_]{12}")
"""A text without one of them is a name, as most are."""


def is_secret(name: str) -> bool:
    """Return whether a name is that of a secret value; names of files and objects with secrets are not."""
    plain = name.translate(_SEPARATORS).lower()
    return any(word in plain for word in _WORDS) and not plain.endswith(_NAMES)


def without_secrets(text: str) -> str:
    """Return a text with … in place of secrets."""
    if not _POSSIBLE_SECRET.search(text):
        return text
    text = _KEY_BLOCK.sub("…", text)
    text = _WELL_KNOWN.sub("…", _ENCODED.sub("…", text))
    if "://" in text or "?" in text:
        text = _ADDRESS.sub(_address, text)
    follows = False

    def shown(word: re.Match[str]) -> str:
        nonlocal follows
        value = _OPTION.sub(_option, word.group())
        if follows and not value.startswith("--"):
            return "…"
        follows = False
        name, sign, _ = value.partition("=")
        if not sign:
            name, sign, _ = value.partition(":")
        if is_secret(name.strip("\"'{[(,")) and (sign or name.startswith("-") or name.lower() == "bearer"):
            follows = True
            return f"{name}{sign}…" if sign and len(value) > len(name) + 1 else value
        return value

    return _WORD.sub(shown, text)


def without_values(texts: Sequence[str]) -> list[str]:
    """Return arguments with … in place of secrets, also where the value is an argument of its own."""
    found, follows = [], False
    for text in texts:
        found.append("…" if follows and not text.startswith("--") else without_secrets(text))
        follows = text.startswith("-") and "=" not in text and is_secret(text)
    return found


def _option(option: re.Match[str]) -> str:
    return f"{option[1]}=…" if is_secret(option[1]) else option.group()


def _address(word: re.Match[str]) -> str:
    """Return an address without user, password, query and fragment; a path without its query."""
    text = word.group()
    scheme, sign, rest = text.partition("://")
    if not sign:
        path, mark, query = text.partition("?")
        return path if mark and "=" in query else text
    end = min((position for mark in "?#" if (position := rest.find(mark)) >= 0), default=len(rest))
    host, slash, path = rest[:end].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
