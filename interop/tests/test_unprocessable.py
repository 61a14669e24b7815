"""Messages that are no task are kept beside the queue, and the worker goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.exceptions import NotRegistered
from harness import eventually
from kubemq.queues.queues_messages_waiting_pulled import QueueMessageWaitingPulled
from stack import QUEUE, SOON, Stack

from lovage_kombu.broker import Broker
from lovage_kombu.messages import Outgoing

pytestmark = pytest.mark.core

KEPT_IN = f"{QUEUE}.unprocessable"


@pytest.fixture(scope="module")
def broker(stack: Stack) -> Iterator[Broker]:
    broker = stack.broker
    yield broker
    broker.close()


def kept(broker: Broker, part_of_body: bytes) -> QueueMessageWaitingPulled:
    """Return the one kept message whose body holds some bytes, once it is there."""

    def found() -> list[QueueMessageWaitingPulled]:
        messages = broker.peek_messages(KEPT_IN, 1024)
        return [message for message in messages if part_of_body in message.body]

    messages = eventually(found, what=f"{part_of_body!r} in {KEPT_IN}")
    assert len(messages) == 1
    return messages[0]


def envelope(**changes: Any) -> bytes:
    """Return the kombu envelope of a task, as wrong as the test wants it."""
    task_id = str(uuid4())
    message = {
        "body": base64.b64encode(b"[[1, 2], {}, {}]").decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": "interop.add", "id": task_id, "root_id": task_id},
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": QUEUE},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
        },
    }
    return json.dumps({**message, **changes}).encode()


def marker() -> str:
    return f"mark-{uuid4()}"


def goes_on(app: Celery) -> bool:
    return app.tasks["interop.add"].delay(20, 22).get(timeout=SOON) == 42


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda mark: b"\xff\xfe\x00" + mark, "envelope"),
        (lambda mark: b'{"no": "properties", "mark": "%s"}' % mark, "envelope"),
        (lambda mark: b'["%s"]' % mark, "envelope"),
    ],
    ids=["no JSON", "no envelope", "no object"],
)
def test_no_envelope(app: Celery, broker: Broker, make: Any, reason: str):
    body = make(marker().encode())
    broker.send(QUEUE, Outgoing(body=body))
    message = kept(broker, body[-20:])
    assert message.body == body
    assert message.tags["lovage-reason"] == reason
    assert goes_on(app)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"body": "not base64!"}, "envelope"),
        ({"body": base64.b64encode(b'{"cut of').decode()}, "undecodable"),
        ({"content-type": "application/x-python-serialize"}, "content-disallowed"),
        ({"headers": {"task": "interop.add"}}, "invalid"),
        ({"headers": None}, "unknown-message"),
    ],
    ids=["body encoding", "body", "pickle", "no id", "no task"],
)
def test_no_task(app: Celery, broker: Broker, changes: dict[str, Any], reason: str):
    mark = marker()
    body = envelope(mark=mark, **changes)
    broker.send(QUEUE, Outgoing(body=body))
    message = kept(broker, mark.encode())
    assert message.body == body
    assert message.tags["lovage-reason"] == reason
    assert goes_on(app)


def test_unknown_task(app: Celery, broker: Broker):
    result = app.send_task("interop.nobody_knows_this_either", [1])
    with pytest.raises(NotRegistered):
        result.get(timeout=SOON)
    message = kept(broker, result.id.encode())
    assert json.loads(message.body)["headers"]["task"] == "interop.nobody_knows_this_either"
    assert message.tags["lovage-reason"] == "unregistered"
    assert goes_on(app)
