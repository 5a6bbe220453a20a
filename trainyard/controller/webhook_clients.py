"""Clients of the webhooks: the API server, where it authenticates itself with a client certificate."""

from __future__ import annotations

import ssl
from typing import Any

from aiohttp import web

from trainyard.controller.configuration import WebhookClients


def request_certificates(context: ssl.SSLContext, clients: WebhookClients) -> None:
    """Make a server ask its clients for a certificate.

    One is not required to connect: pods report their progress at the same port, with a token.
    """
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=clients.authority)


def is_api_server(request: web.Request, clients: WebhookClients) -> bool:
    """Return whether the sender of a request has shown one of the certificates."""
    shown: Any = None if request.transport is None else request.transport.get_extra_info("peercert")
    if not shown:
        return False
    names = {value for part in shown.get("subject", ()) for key, value in part if key == "commonName"}
    return not clients.names or not names.isdisjoint(clients.names)
