"""A Go worker, the broker that it talks to and a Celery app for both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import celery
from celery import Celery
from harness import Service, binary, free_port

from app import make_app
from lovage_kombu.broker import Broker

QUEUE = "celery"
OTHER_QUEUE = "reports"
# KubeMQ doesn't have this name; Python and Go must map it to the same channel.
MAPPED_QUEUE = "team@billing/urgent"

# kombu writes dates, decimals, UUIDs and bytes as typed JSON since 5.3.
TYPED_JSON = tuple(map(int, celery.__version__.split(".")[:2])) >= (5, 3)

# Celery's own line, "celery@host ready."
WORKER_READY = r"@\S+ ready\."
# The line of a broker that runs alone.
BROKER_READY = r"broker ready on "

# How long a result may take that needs no waiting. It is long because the
# machines of CI are slow and shared; a lost message is noticed all the same.
SOON = 30


def broker_settings(directory: Path, port: int, **settings: Any) -> dict[str, Any]:
    """Return the section of celery.yaml for an embedded broker."""
    return {
        "listen": f"127.0.0.1:{port}",
        # Alone, it would take the port that KubeMQ's guides name.
        "http_listen": "127.0.0.1:0",
        "data_dir": str(directory / "data"),
        **settings,
    }


class Stack:
    """By default one process: the worker with its broker inside.

    Settings are those of celery.yaml. embedded_broker is merged with what every
    broker of the tests needs; broker_transport_options are the Python side's.
    """

    def __init__(
        self,
        directory: Path,
        embedded_broker: dict[str, Any] | None = None,
        broker_transport_options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.port = free_port()
        self.url = f"lovage://127.0.0.1:{self.port}"
        self.worker = Service(
            [binary("LOVAGE_WORKER_BIN")],
            directory,
            {
                "broker": "embedded",
                "result_backend": "embedded",
                "embedded_broker": broker_settings(directory, self.port, **embedded_broker or {}),
                "worker_concurrency": 8,
                "accept_content": ["json", "msgpack", "yaml"],
                **settings,
            },
            WORKER_READY,
        )
        self.app: Celery = make_app(
            self.url, broker_transport_options=broker_transport_options or {}
        )

    @contextmanager
    def running(self) -> Iterator[Stack]:
        """Run the worker for the length of a with block."""
        with self.worker.running():
            try:
                yield self
            finally:
                self.app.close()

    @property
    def broker(self) -> Broker:
        """A connection of its own to the broker, for what no Celery app does."""
        return Broker("127.0.0.1", self.port)
