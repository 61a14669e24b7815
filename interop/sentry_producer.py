"""A program with Python's Sentry SDK that calls one Go task, as a web server would.

    python sentry_producer.py DSN BROKER-URL TASK [ARG ...]

It runs alone because the SDK changes Celery for the whole process. It prints the
id of the task and whether it failed.
"""

from __future__ import annotations

import sys

import compat  # noqa: F401  # isort: skip  # it must come before Celery

import sentry_sdk
from sentry_sdk.integrations.celery import CeleryIntegration

from app import make_app


def main(dsn: str, url: str, task: str, *args: str) -> None:
    """Call the task inside a transaction and wait for its end."""
    sentry_sdk.init(
        dsn=dsn,
        traces_sample_rate=1.0,
        environment="interop",
        release="shop@1",
        integrations=[CeleryIntegration()],
    )
    app = make_app(url)
    with sentry_sdk.start_transaction(op="http.server", name="checkout"):
        result = app.send_task(task, args, headers={"mine": "kept"})
    result.get(timeout=30, propagate=False)
    print(result.id, result.state)
    app.close()
    sentry_sdk.flush(10)


if __name__ == "__main__":
    main(*sys.argv[1:])
