"""Certificate of a server from files, which are read again when they are renewed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import CredentialsError
from trainyard.kube.rotation import FileBacked

_CHECK_SECONDS: Final = 10.0
_LOG = logging.getLogger(__name__)


class ServingFiles:
    """TLS context with the certificate of a folder; new connections use a renewed one without a restart.

    Parameters
    ----------
    folder
        Folder of a Secret volume, with ``tls.crt`` and ``tls.key``.

    Raises
    ------
    TrainyardError
        The folder has no valid certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._pair = folder / "tls.crt", folder / "tls.key"
        self._files = FileBacked(f"certificate of {folder}", self._pair, self._load)
        try:
            self.refresh()
        except CredentialsError as error:
            fix = "wait until the controller has issued it, or name a folder with tls.crt and tls.key"
            raise TrainyardError(f"{folder} has no valid certificate: {error.__cause__}", fix=fix) from error

    async def keep_loaded(self) -> None:
        """Load the files again when they have changed, until cancelled; the last valid certificate stays in use."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Load the files if they have changed."""
        self._loaded = self._files.current(now=True)

    def _load(self, _: bytes | None) -> bytes:
        """Load the files, and return the certificate."""
        certificate = self._pair[0].read_bytes()
        # First into another context: a certificate without its key would stay in this one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._pair, password="")
        self.context.load_cert_chain(*self._pair, password="")
        _LOG.info("serving with the certificate of %s", self._pair[0].parent)
        return certificate
