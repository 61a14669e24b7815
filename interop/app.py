"""The Celery application of the interop tests.

The tasks named ``interop.*`` run in the Go worker; their functions here are what
a team has left of a task that has moved: the name and the signature. Those named
``python.*`` run in a Celery worker that reads the same broker::

    LOVAGE_BROKER_URL=lovage://localhost:50000 celery -A app worker -P solo -Q python
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from celery import Celery

import lovage_kombu  # noqa: F401  # registers the scheme


class PaymentDeclined(Exception):
    """An exception class that the Go worker raises by its name."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def make_app(url: str, **settings: Any) -> Celery:
    """Return an application that publishes to the broker at url."""
    app = Celery("interop", broker=url, backend=url, set_as_current=False)
    app.conf.update(
        # A broker that restarts is part of the tests.
        result_backend_always_retry=True,
        broker_connection_retry_on_startup=True,
        task_publish_retry_policy={"max_retries": 30, "interval_start": 0.1, "interval_max": 1},
        worker_hijack_root_logger=False,
    )
    app.conf.update(settings)
    _declare_go_tasks(app)
    _declare_python_tasks(app)
    _declare_shared_tasks(app)
    return app


def _declare_go_tasks(app: Celery) -> None:
    @app.task(shared=False, name="interop.add")
    def add(x: int, y: int) -> NoReturn:
        raise NotImplementedError("runs in the Go worker")

    @app.task(shared=False, name="interop.greet")
    def greet(name: str, greeting: str = "Hello", times: int = 1) -> NoReturn:
        raise NotImplementedError("runs in the Go worker")

    @app.task(shared=False, name="interop.echo")
    def echo(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("runs in the Go worker")


def _declare_python_tasks(app: Celery) -> None:
    @app.task(shared=False, name="python.add")
    def add(x: int, y: int) -> int:
        return x + y

    @app.task(shared=False, name="python.fail")
    def fail(message: str) -> NoReturn:
        raise ValueError(message)

    @app.task(shared=False, name="python.sum")
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(shared=False, name="python.errback")
    def errback(task_id: str, path: str) -> None:
        with open(path, "a") as file:
            file.write(f"python {task_id}\n")


def _declare_shared_tasks(app: Celery) -> None:
    @app.task(shared=False, name="both.describe", bind=True)
    def describe(
        self: Any, queue: str, priority: int, headers: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Tell what a run was sent with; the Go task sends it here."""
        request = self.request
        return {
            "by": "python",
            "queue": request.delivery_info["routing_key"],
            "priority": request.delivery_info["priority"],
            "retries": request.retries,
            "headers": request.headers,
            "stamps": request.stamps,
            "shadow": request.shadow,
            "origin": request.origin,
            "args": request.args,
            "kwargs": request.kwargs,
            "group": request.group,
            "timelimit": request.timelimit,
        }


app = make_app(os.environ.get("LOVAGE_BROKER_URL", "lovage://localhost:50000"))
