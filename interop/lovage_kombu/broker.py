"""The calls that the transport and the backend make to a broker.

The SDK reports a failed call in three ways: a raised gRPC error, an exception of
its own, or a result with an error flag. Callers of this module see two
exceptions instead: Unavailable, worth another try, and Refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from uuid import uuid4

import grpc
from kubemq.common.cancellation_token import CancellationToken
from kubemq.core import ClientConfig
from kubemq.core.config import TLSConfig
from kubemq.core.exceptions import KubeMQError
from kubemq.pubsub import EventMessage, EventsSubscription
from kubemq.pubsub.client import Client as PubSubClient
from kubemq.queues import QueueMessage
from kubemq.queues.client import Client as QueuesClient
from kubemq.queues.queues_message_received import QueueMessageReceived
from kubemq.queues.queues_messages_waiting_pulled import QueueMessageWaitingPulled

from .messages import Outgoing

# The SDK warns about each connection without TLS, which is all that the tests open.
logging.getLogger("KubeMQ").setLevel(logging.ERROR)

DEFAULT_PORT = 50_000
# KubeMQ's own limit of a gRPC message; the SDK's default is 4 MiB.
LARGEST = 100 << 20
# The shortest wait that every KubeMQ server honours, in seconds. The SDK gives up
# on a receive half a second after the wait, so that shorter ones lose answers.
SHORTEST_WAIT = 1


class Unavailable(ConnectionError):
    """The broker can't be reached, or didn't answer."""


class Refused(Exception):
    """The broker answered with an error."""


@contextmanager
def _translated(action: str) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise Unavailable(f"{action}: {error.code().name}: {error.details()}") from error
    except KubeMQError as error:
        raise Refused(f"{action}: {error}") from error


class Broker:
    """One connection. It may be used by several threads."""

    def __init__(self, host: str | None, port: int | None, token: str | None = None) -> None:
        self._address = f"{host or 'localhost'}:{port or DEFAULT_PORT}"
        self._token = token or None

    def __str__(self) -> str:
        return self._address

    def _config(self) -> ClientConfig:
        return ClientConfig(
            address=self._address,
            client_id=f"lovage-{uuid4().hex[:12]}",
            auth_token=self._token,
            tls=TLSConfig(enabled=False),
            max_send_size=LARGEST,
            max_receive_size=LARGEST,
        )

    @cached_property
    def _queues(self) -> QueuesClient:
        return QueuesClient(config=self._config())

    @cached_property
    def _events(self) -> PubSubClient:
        return PubSubClient(config=self._config())

    def ping(self) -> None:
        """Raise Unavailable unless the broker answers."""
        with _translated(f"ping {self}"):
            self._queues.ping()

    def send(self, channel: str, message: Outgoing) -> None:
        """Return once the broker has confirmed the message.

        The unary call is used because the SDK's stream answers a lost connection
        with a flag, not an exception, and drops what is sent while it reconnects.
        """
        with _translated(f"send to {channel}"):
            result = self._queues.send_queue_message_simple(
                QueueMessage(
                    channel=channel,
                    body=message.body,
                    metadata=message.metadata,
                    tags=message.tags,
                    delay_in_seconds=message.delay,
                    expiration_in_seconds=message.expiration,
                )
            )
        if result.is_error:
            raise Refused(f"send to {channel}: {result.error}")

    def receive(self, channel: str, wait: int) -> QueueMessageReceived | None:
        """Take one message, or None after wait seconds. It is not acked yet."""
        response = self._queues.receive_queue_messages(
            channel=channel,
            max_messages=1,
            wait_timeout_in_seconds=max(wait, SHORTEST_WAIT),
            auto_ack=False,
        )
        if response.is_error:
            raise Unavailable(f"receive from {channel}: {response.error}")
        return response.messages[0] if response.messages else None

    def peek(self, channel: str) -> bytes | None:
        """Return the body of the first message and leave it in its place."""
        messages = self.peek_messages(channel, 1)
        return messages[0].body if messages else None

    def peek_messages(self, channel: str, limit: int) -> list[QueueMessageWaitingPulled]:
        """Return up to limit messages, at most 1024, and leave them in their place."""
        with _translated(f"peek into {channel}"):
            found = self._queues.peek_queue_messages(channel, limit, SHORTEST_WAIT)
        if found.is_error:
            raise Refused(f"peek into {channel}: {found.error}")
        return found.messages

    def waiting(self, channel: str) -> int:
        """Return how many messages a queue holds, without waiting for one."""
        with _translated(f"look at {channel}"):
            found = self._queues.list_queues_channels(channel)
        return sum(queue.incoming.waiting for queue in found if queue.name == channel)

    def purge(self, channel: str) -> int:
        """Drop what is ready in a queue and return how much it was."""
        with _translated(f"purge {channel}"):
            return self._queues.ack_all_queue_messages(channel, SHORTEST_WAIT)

    def broadcast(self, channel: str, body: bytes) -> None:
        """Hand body to everyone who is subscribed right now."""
        with _translated(f"broadcast on {channel}"):
            self._events.send_event(EventMessage(channel=channel, body=body))

    def subscribe(self, channel: str, receive: Callable[[bytes], None]) -> CancellationToken:
        """Call receive, in a thread of the SDK, for each broadcast."""
        token = CancellationToken()
        self._events.subscribe_to_events(
            EventsSubscription(
                channel=channel,
                on_receive_event_callback=lambda event: receive(event.body),
                on_error_callback=lambda _: None,
            ),
            token,
        )
        return token

    def close(self) -> None:
        """Close what was opened. Messages that aren't acked go back."""
        for name in ("_queues", "_events"):
            client = self.__dict__.pop(name, None)
            if client is not None:
                client.close()
