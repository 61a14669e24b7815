"""Several queues, whose names Python and Go map to the same channels."""

from __future__ import annotations

import pytest
from celery import Celery
from conftest import MakeStack
from harness import Runs
from stack import MAPPED_QUEUE, OTHER_QUEUE, QUEUE, SOON

pytestmark = pytest.mark.core


@pytest.mark.parametrize("queue", [QUEUE, OTHER_QUEUE, MAPPED_QUEUE])
def test_queue(app: Celery, queue: str):
    result = app.send_task("interop.request", queue=queue)
    assert result.get(timeout=SOON)["queue"] == queue


@pytest.mark.parametrize("queue", [OTHER_QUEUE, MAPPED_QUEUE])
def test_retry_stays_in_its_queue(app: Celery, queue: str):
    result = app.send_task("interop.retry_then_succeed", [2], queue=queue)
    assert result.get(timeout=SOON) == 2


@pytest.mark.parametrize("priority", [0, 5, 9])
def test_priority(app: Celery, priority: int):
    request = app.send_task("interop.request", priority=priority).get(timeout=SOON)
    assert request["priority"] == priority


def test_only_its_own_queues(make_stack: MakeStack, runs: Runs):
    stack = make_stack(queues=["mine"])
    foreign = stack.app.send_task("interop.count", [runs.path, 1], queue="yours")
    own = stack.app.send_task("interop.count", [runs.path, 2], queue="mine")
    assert own.get(timeout=SOON) == 2
    assert runs.started == {own.id: 1}
    assert foreign.state == "PENDING"
