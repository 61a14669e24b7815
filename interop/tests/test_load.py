"""Many tasks: none is lost, none runs twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import Celery
from celery.result import AsyncResult, ResultSet
from conftest import MakeStack
from harness import Runs

pytestmark = pytest.mark.core

TASKS = 10_000
PUBLISHERS = 4
# For all of it; a lost task is found by the result that doesn't come.
TIMEOUT = 180


def publish(app: Celery, path: str, values: range) -> list[AsyncResult]:
    """Publish a task per value over one connection."""
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        return [
            app.send_task("interop.count", [path, value], producer=producer) for value in values
        ]


def test_ten_thousand_tasks(make_stack: MakeStack, runs: Runs):
    app = make_stack(worker_concurrency=8).app
    shares = [range(first, TASKS, PUBLISHERS) for first in range(PUBLISHERS)]
    with ThreadPoolExecutor(PUBLISHERS) as pool:
        published = list(pool.map(lambda share: publish(app, runs.path, share), shares))
    results = [result for share in published for result in share]

    values = ResultSet(results, app=app).get(timeout=TIMEOUT)

    assert values == [value for share in shares for value in share]
    assert sum(values) == TASKS * (TASKS - 1) // 2
    assert runs.started == {result.id: 1 for result in results}
    assert runs.ended == runs.started
