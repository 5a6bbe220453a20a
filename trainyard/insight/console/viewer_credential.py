"""Credential of a viewer: a bearer token, in an encrypted cookie or in the header that an authenticating proxy sends.

The console stores no session. The cookie contains the token, encrypted and authenticated with a key that all replicas
derive from the private key of their certificate, which the controller issues and renews.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from aiohttp import web
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trainyard.insight.console.request_origin import cookie_values
from trainyard.kube.reviews import bearer_token
from trainyard.kube.rotation import FileBacked

MAX_COOKIE_TOKEN: Final = 2900
"""Characters of a token in a cookie: encrypted, its cookie has 4,033 of the 4,096 that browsers store."""
COOKIE_SECONDS: Final = 12 * 3600
_PURPOSE: Final = b"trainyard-console cookie 1"
_HTTPS_PORT: Final = "443"


class ViewerCookie:
    """Cookie with the token of a viewer.

    Parameters
    ----------
    folder
        Folder of the serving certificate, with ``tls.key``. Cookies of the key before it are still read.

    Raises
    ------
    CredentialsError
        The folder has no valid key.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tls.key"
        self._ciphers: list[Fernet] = []
        self._cipher = FileBacked(f"key of {folder}", [self._file], self._derive)
        self._cipher.current()

    def store(self, request: web.Request, response: web.Response, token: str) -> None:
        """Add the cookie to an answer."""
        value = self._cipher.current().encrypt(token.encode()).decode().rstrip("=")
        response.set_cookie(_name(request), value, secure=True, httponly=True, samesite="strict", path="/")

    def delete(self, request: web.Request, response: web.Response) -> None:
        """Delete the cookie."""
        response.del_cookie(_name(request), secure=True, httponly=True, samesite="strict", path="/")

    def token(self, request: web.Request) -> str | None:
        """Return the token in the cookie of a request; None if it has none, or an invalid, old or second one."""
        values = cookie_values(request, _name(request))
        if len(values) != 1:
            return None
        padded = values[0] + "=" * (-len(values[0]) % 4)
        try:
            return self._cipher.current().decrypt(padded, ttl=COOKIE_SECONDS).decode()
        except (InvalidToken, ValueError):
            return None

    def _derive(self, _: bytes | None) -> MultiFernet:
        key = serialization.load_pem_private_key(self._file.read_bytes(), None).private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        derived = HKDF(hashes.SHA256(), 32, None, _PURPOSE).derive(key)
        self._ciphers = [Fernet(urlsafe_b64encode(derived)), *self._ciphers[:1]]
        return MultiFernet(self._ciphers)


def passed_token(request: web.Request) -> str | None:
    """Return the bearer token in the header of a request; None if it has no valid one."""
    values = request.headers.getall("Authorization", [])
    return bearer_token(values[0]) if len(values) == 1 else None


def _name(request: web.Request) -> str:
    """Return the name of the cookie: browsers send cookies to every port of a host."""
    _, colon, port = request.headers["Host"].rpartition(":")
    return f"__Host-trainyard-console-{port if colon and port.isdecimal() else _HTTPS_PORT}"
