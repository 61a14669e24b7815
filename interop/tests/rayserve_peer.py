"""What users of Ray Serve's KubeMQ adapter do, in its wire form, with the SDK alone.

The form is written down in docs/protocol.md, section 24. Nothing here knows Celery.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cached_property
from typing import Any
from uuid import uuid4

import grpc
from harness import eventually
from kubemq.common.cancellation_token import CancellationToken
from kubemq.core import ClientConfig
from kubemq.core.config import TLSConfig
from kubemq.core.exceptions import KubeMQError
from kubemq.cq import QueryMessage
from kubemq.cq.client import Client as CQClient
from kubemq.pubsub import EventMessage, EventsSubscription
from kubemq.pubsub.client import Client as PubSubClient
from kubemq.queues import QueueMessage
from kubemq.queues.client import Client as QueuesClient
from kubemq.queues.queues_messages_waiting_pulled import QueueMessageWaitingPulled

RESULT_PREFIX = "rayserve-result-"
RESULT_EXPIRY = 3600
ENDED = ("SUCCESS", "FAILURE", "CANCELLED")

# How long a loaded machine may take for what needs no waiting.
PATIENCE = 90


def now() -> str:
    """Return the time as records hold it."""
    return datetime.now(timezone.utc).isoformat()


class Peer:
    """A producer of one queue, and what it asks afterwards.

    max_retries and failed_queue are what it stamps on its messages, if both are set.
    """

    def __init__(self, port: int, queue: str, max_retries: int = 0, failed_queue: str = "") -> None:
        self.queue = queue
        self._limit: dict[str, Any] = {}
        if max_retries and failed_queue:
            self._limit = {"max_receive_count": max_retries, "max_receive_queue": failed_queue}
        self._config = ClientConfig(
            address=f"127.0.0.1:{port}",
            client_id=f"rayserve-{uuid4().hex[:8]}",
            tls=TLSConfig(enabled=False),
        )

    # The SDK connects when a client is made; the broker may not have started yet.

    @cached_property
    def _queues(self) -> QueuesClient:
        return QueuesClient(config=self._config)

    @cached_property
    def _requests(self) -> CQClient:
        return CQClient(config=self._config)

    @cached_property
    def _events(self) -> PubSubClient:
        return PubSubClient(config=self._config)

    def close(self) -> None:
        """Close the connections that were opened."""
        for name in ("_queues", "_requests", "_events"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def reconnect(self) -> None:
        """Connect anew after the broker was away.

        What the SDK sends while it finds the broker again is lost, and sometimes it never does.
        """

        def connected() -> bool:
            self.close()
            try:
                self._queues.ping()
            except (KubeMQError, grpc.RpcError):
                return False
            return True

        eventually(connected, PATIENCE, "a producer that is connected")

    def enqueue(self, name: str, *args: Any, **kwargs: Any) -> str:
        """Store PENDING, send a task and return its id."""
        task_id = str(uuid4())
        self.write(task_id, "PENDING")
        self.put(json.dumps(task(task_id, name, *args, **kwargs)).encode())
        return task_id

    def put(self, body: bytes) -> None:
        """Send what may or may not be a task."""
        sent = self._queues.send_queue_message(
            QueueMessage(channel=self.queue, body=body, **self._limit)
        )
        assert not sent.is_error, sent.error

    def write(self, task_id: str, status: str, **fields: Any) -> None:
        """Purge a task's record and write another one."""
        channel = RESULT_PREFIX + task_id
        self._queues.ack_all_queue_messages(channel, 1)
        body = {
            "task_id": task_id,
            "status": status,
            "result": None,
            "created_at": now(),
            "completed_at": now(),
            **fields,
        }
        sent = self._queues.send_queue_message(
            QueueMessage(
                channel=channel,
                body=json.dumps(body).encode(),
                expiration_in_seconds=RESULT_EXPIRY,
            )
        )
        assert not sent.is_error, sent.error

    def record(self, task_id: str) -> dict[str, Any] | None:
        """Return a task's record; there is none in the middle of somebody's write."""
        records = self.peek(RESULT_PREFIX + task_id, 1)
        return json.loads(records[0].body) if records else None

    def status(self, task_id: str) -> str:
        """Return what a caller takes for the state."""
        return (self.record(task_id) or {}).get("status", "PENDING")

    def wait(self, task_id: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """Return the record of a task that has ended."""

        def ended() -> dict[str, Any] | None:
            record = self.record(task_id)
            return record if record and record["status"] in ENDED else None

        return eventually(ended, timeout, f"the end of task {task_id}")

    def cancel(self, task_id: str) -> None:
        """Write CANCELLED over whatever is there."""
        self.write(task_id, "CANCELLED")

    def query(self, name: str, *args: Any, timeout: int = PATIENCE, **kwargs: Any) -> Any:
        """Ask for a result at once and return the SDK's response, whose body is JSON."""
        body = json.dumps({"task_name": name, "args": list(args), "kwargs": kwargs}).encode()
        return self.query_raw(body, timeout)

    def query_raw(self, body: bytes, timeout: int = PATIENCE) -> Any:
        """Send a query with any body."""
        return self._requests.send_query(
            QueryMessage(channel=self.queue, body=body, timeout_in_seconds=timeout)
        )

    @contextmanager
    def progress(self) -> Iterator[list[tuple[dict[str, Any], dict[str, str]]]]:
        """Collect the queue's progress events, as pairs of body and tags."""
        channel = f"{self.queue}.progress"
        events: list[tuple[dict[str, Any], dict[str, str]]] = []
        subscribed = threading.Event()

        def receive(event: Any) -> None:
            if event.body == b"are you there":
                subscribed.set()
            else:
                events.append((json.loads(event.body), event.tags))

        def seen() -> bool:
            self._events.send_event(EventMessage(channel=channel, body=b"are you there"))
            return subscribed.wait(0.1)

        token = CancellationToken()
        self._events.subscribe_to_events(
            EventsSubscription(
                channel=channel,
                on_receive_event_callback=receive,
                on_error_callback=lambda _: None,
            ),
            token,
        )
        try:
            eventually(seen, PATIENCE, f"a subscription to {channel}")
            yield events
        finally:
            token.cancel()

    def peek(self, channel: str, limit: int = 1024) -> list[QueueMessageWaitingPulled]:
        """Return what is ready in a queue, without taking it; an unknown queue is empty."""
        found = self._queues.peek_queue_messages(channel, limit, 1)
        assert not found.is_error, found.error
        return found.messages

    def depth(self, channel: str) -> int:
        """Return how many messages a queue holds, as the adapter's metrics have it."""
        found = self._queues.list_queues_channels(channel)
        return sum(one.incoming.waiting for one in found if one.name == channel)

    def consume_one(self, handler: Callable[..., Any], max_retries: int) -> str | None:
        """Do what the adapter's consumer does with one message and return the task's id."""
        response = self._queues.receive_queue_messages(
            channel=self.queue, max_messages=1, wait_timeout_in_seconds=1, auto_ack=False
        )
        if response.is_error or not response.messages:
            return None
        message = response.messages[0]
        body = json.loads(message.body)
        task_id, created = body["task_id"], body["created_at"]
        try:
            result = handler(*body["args"], **body["kwargs"])
        except Exception as error:
            if message.receive_count >= max_retries:
                text = f"{type(error).__name__}: {error}"
                self.write(task_id, "FAILURE", error=text, created_at=created)
            message.nack()
        else:
            self.write(task_id, "SUCCESS", result=result, created_at=created)
            message.ack()
        return task_id


def task(task_id: str, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return a task as it is sent."""
    return {
        "task_id": task_id,
        "task_name": name,
        "args": list(args),
        "kwargs": kwargs,
        "created_at": now(),
    }
