"""Decoding of API server responses, including deeply nested ones."""

from __future__ import annotations

import logging
import re
from typing import Any

import orjson

_LOG = logging.getLogger(__name__)
_MAX_DEPTH = 200
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def decoded(payload: bytes) -> Any:
    """Return decoded JSON; values nested too deeply for the decoder become null.

    The API server stores up to 10,000 levels in fields without a schema and orjson reads 1,024. Without the
    truncation, one such object makes every list of its kind unreadable.

    Raises
    ------
    orjson.JSONDecodeError
        If it is not JSON.
    """
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        if "depth limit" not in str(error):
            raise
    _LOG.error("an object is nested too deeply to decode; values below level %d are ignored", _MAX_DEPTH)
    return orjson.loads(_truncated(payload))


def _truncated(payload: bytes) -> bytes:
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(payload):
        bracket = token[0]
        if bracket in (b"{", b"["):
            depth += 1
            if depth == _MAX_DEPTH + 1:
                kept.append(payload[start : token.start()])
        elif bracket in (b"}", b"]"):
            depth -= 1
            if depth == _MAX_DEPTH:
                kept.append(b"null")
                start = token.end()
    return b"".join([*kept, payload[start:]])
