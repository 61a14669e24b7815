"""A worker that serves a Ray Serve queue beside a Celery one."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Runs, Service, binary, free_port
from rayserve_peer import Peer
from stack import BROKER_READY, QUEUE, WORKER_READY, Stack, broker_settings

MODELS = "models"
FAILED = "models.failed"
ODD = "models.unprocessable"
MAX_RETRIES = 3


def models(**settings: Any) -> dict[str, Any]:
    """Return what celery.yaml says of the queue."""
    return {
        "name": MODELS,
        "protocol": "rayserve",
        "max_retries": MAX_RETRIES,
        "failed_task_queue": FAILED,
        "unprocessable_task_queue": ODD,
        **settings,
    }


class RayServe:
    """One process: the worker with its broker inside."""

    def __init__(self, directory: Path, queue: dict[str, Any] | None = None) -> None:
        self._health = f"127.0.0.1:{free_port()}"
        self.stack = Stack(
            directory,
            queues=[{"name": QUEUE}, models(**queue or {})],
            health={"listen": self._health},
            worker_concurrency=4,
        )
        self.peer = Peer(self.stack.port, MODELS, MAX_RETRIES, FAILED)
        self.runs = Runs(directory / "runs")

    @contextmanager
    def running(self) -> Iterator[RayServe]:
        """Run the worker for the length of a with block."""
        with self.stack.running():
            try:
                yield self
            finally:
                self.peer.close()

    def metrics(self) -> dict[str, Any]:
        """Return what GET /rayserve answers."""
        return rayserve_metrics(self._health)

    def on_dlq(self, task_id: str) -> list[str]:
        """Return the errors with which the dead letter hook was called for a task."""
        return on_dlq(self.stack.worker, task_id)


class Apart:
    """A broker that runs alone, and workers that connect to it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self.health = f"127.0.0.1:{free_port()}"
        self.broker = Service(
            [binary("LOVAGE_BIN"), "broker"],
            directory / "broker",
            {"embedded_broker": broker_settings(directory, self._port)},
            BROKER_READY,
        )
        self.worker = self.make_worker("worker", health={"listen": self.health})
        self.peer = Peer(self._port, MODELS, MAX_RETRIES, FAILED)
        self.runs = Runs(directory / "runs")

    def make_worker(self, name: str, **settings: Any) -> Service:
        """Return another worker of the queue."""
        return Service(
            [binary("LOVAGE_WORKER_BIN")],
            self._directory / name,
            {
                "broker_url": f"kubemq://127.0.0.1:{self._port}",
                "queues": [models()],
                "worker_concurrency": 2,
                **settings,
            },
            WORKER_READY,
        )

    def metrics(self) -> dict[str, Any]:
        """Return what GET /rayserve of the first worker answers."""
        return rayserve_metrics(self.health)


def rayserve_metrics(address: str) -> dict[str, Any]:
    """Return what GET /rayserve answers."""
    with urllib.request.urlopen(f"http://{address}/rayserve", timeout=10) as response:
        return json.load(response)


def on_dlq(worker: Service, task_id: str) -> list[str]:
    """Return the errors with which a worker's dead letter hook was called for a task."""
    start = f"on_dlq {task_id} "
    return [
        line.removeprefix(start)
        for line in worker.program.log.splitlines()
        if line.startswith(start)
    ]
