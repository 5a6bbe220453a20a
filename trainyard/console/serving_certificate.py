"""Certificate of a server from files, which are read again when they are renewed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError

__all__ = ["ServingFiles"]

_CHECK_SECONDS: Final = 10.0
_LOG = logging.getLogger(__name__)


class ServingFiles:
    """TLS context with the certificate of a folder; new connections use a renewed one without a restart.

    Parameters
    ----------
    folder
        Folder of a Secret volume, with ``tls.crt`` and ``tls.key``.
    clients
        File with the authority of the certificates that clients must present; None: they present none.

    Raises
    ------
    TrainyardError
        The folder has no valid certificate, or the file no valid authority.
    """

    def __init__(self, folder: Path, clients: Path | None = None) -> None:
        self._files = folder / "tls.crt", folder / "tls.key"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._loaded: object = None
        if clients is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            try:
                self.context.load_verify_locations(clients)
            except (OSError, ValueError) as error:
                fix = "set a PEM certificate of an authority"
                raise TrainyardError(f"{clients} has no valid certificate authority: {error}", fix=fix) from error
        try:
            self._load()
        except (OSError, ValueError) as error:
            fix = "wait until the controller has issued it, or name a folder with tls.crt and tls.key"
            raise TrainyardError(f"{folder} has no valid certificate: {error}", fix=fix) from error

    async def keep_loaded(self) -> None:
        """Load the files again when they have changed, until cancelled; the last valid certificate stays in use."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Load the files if they have changed."""
        try:
            if self._load():
                _LOG.info("serving with a renewed certificate")
        except (OSError, ValueError) as error:
            _LOG.warning("the certificate could not be loaded, the last one stays in use: %s", error)

    def _load(self) -> bool:
        states = [file.stat() for file in self._files]
        found = [(each.st_mtime_ns, each.st_ino, each.st_size) for each in states]
        if found == self._loaded:
            return False
        # First into another context: a certificate without its key would stay in this one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files, password="")
        self.context.load_cert_chain(*self._files, password="")
        self._loaded = found
        return True
