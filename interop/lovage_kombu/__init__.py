"""A kombu transport and a Celery result backend for the ``lovage://`` scheme.

They speak to a KubeMQ compatible broker with KubeMQ's Python SDK and write the
same messages as the kubemq-celery package, which isn't on PyPI, so that the
interop tests run a stock Celery as the peer of the Go worker.

Importing this package registers the scheme::

    import lovage_kombu
    app = Celery("shop", broker="lovage://localhost:50000", backend="lovage://localhost:50000")
"""

from __future__ import annotations

from celery.app.backends import BACKEND_ALIASES
from kombu.transport import TRANSPORT_ALIASES

SCHEME = "lovage"


def register() -> None:
    """Teach kombu and Celery the scheme. It can be called more than once."""
    TRANSPORT_ALIASES[SCHEME] = "lovage_kombu.transport:Transport"
    BACKEND_ALIASES[SCHEME] = "lovage_kombu.backend:ResultBackend"


register()
