"""The Python side of the demo: a Celery application whose tasks run in Go.

It talks to the broker by the lovage_kombu package in interop/; an application of
yours would use kubemq-celery. Start it with examples/demo/run.sh.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import lovage_kombu  # noqa: F401  # registers the lovage:// scheme
from celery import Celery
from celery.result import AsyncResult, ResultSet

TIMEOUT = 60
SMALL_TASKS = 1000
COUNTDOWN = 2


def show(app: Celery) -> bool:
    """Run every demonstration, print what came back and tell whether it was right."""

    def call(name: str, *args: Any, **options: Any) -> AsyncResult:
        return app.send_task(f"demo.{name}", args, **options)

    checks: list[tuple[str, Callable[[], Any], Any]] = [
        ("add(2, 3)", lambda: call("add", 2, 3).get(TIMEOUT), 5),
        (
            "greet(name='Ada', greeting='Ahoy')",
            lambda: call("greet", kwargs={"name": "Ada", "greeting": "Ahoy"}).get(TIMEOUT),
            "Ahoy, Ada!",
        ),
        (
            "fail('out of tea')",
            lambda: repr(call("fail", "out of tea").get(TIMEOUT, propagate=False)),
            "ValueError('out of tea')",
        ),
        (
            f"add(40, 2) in {COUNTDOWN} seconds",
            lambda: call("add", 40, 2, countdown=COUNTDOWN).get(TIMEOUT),
            42,
        ),
        (
            "flaky(2), retried twice",
            lambda: call("flaky", 2).get(TIMEOUT),
            "succeeded after 2 retries",
        ),
        (
            f"the sum of {SMALL_TASKS} small tasks",
            lambda: sum(many(app, call)),
            sum(range(SMALL_TASKS)),
        ),
    ]
    verdicts = [checked(*check) for check in checks]
    return all(verdicts)


def many(app: Celery, call: Callable[..., AsyncResult]) -> list[int]:
    """Publish many tasks over one connection and collect what they return."""
    with app.producer_or_acquire() as producer:
        results = [call("noop", n, producer=producer) for n in range(SMALL_TASKS)]
    return ResultSet(results, app=app).get(timeout=TIMEOUT)


def checked(title: str, run: Callable[[], Any], expected: Any) -> bool:
    """Run one demonstration and print its result and how long it took."""
    before = time.monotonic()
    result = run()
    took = time.monotonic() - before
    right = result == expected
    verdict = "" if right else f"   WRONG, expected {expected!r}"
    print(f"{title:<36} -> {result!s:<28} {took:6.2f} s{verdict}", flush=True)
    return right


def main() -> int:
    """Run against the broker whose URL is the only argument."""
    url = sys.argv[1] if len(sys.argv) > 1 else "lovage://localhost:50000"
    return 0 if show(Celery("demo", broker=url, backend=url)) else 1


if __name__ == "__main__":
    sys.exit(main())
