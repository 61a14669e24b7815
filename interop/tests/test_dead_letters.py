"""A message whose attempts are used up: for its caller, and in the dead-letter queue."""

from __future__ import annotations

import json

import pytest
from celery.exceptions import Reject
from conftest import MakeStack
from harness import eventually
from stack import QUEUE, SOON

DEAD = "shop.dead"

pytestmark = pytest.mark.core


def test_max_attempts(make_stack: MakeStack):
    stack = make_stack(max_attempts=3, dead_letter_queue=DEAD)
    result = stack.app.send_task("interop.reject_again", ["no luck"])
    with pytest.raises(Reject) as caught:
        result.get(timeout=SOON)
    assert "delivered 3 times, the limit is 3" in str(caught.value)
    assert "no luck, attempt 3" in str(caught.value)

    broker = stack.broker
    try:
        letters = eventually(lambda: broker.peek_messages(DEAD, 10), what="the dead letter")
    finally:
        broker.close()
    assert len(letters) == 1
    assert json.loads(letters[0].metadata)["id"] == result.id
    tags = letters[0].tags
    assert tags["lovage-reason"] == "max-attempts"
    assert tags["lovage-id"] == result.id
    assert tags["lovage-task"] == "interop.reject_again"
    assert tags["lovage-queue"] == QUEUE
    assert tags["lovage-attempts"] == "3"
    assert tags["lovage-first-error"].endswith("no luck, attempt 1")
    assert tags["lovage-detail"].endswith("no luck, attempt 3")
    assert tags["lovage-worker"].startswith("celery@")
