"""The kombu transport behind ``lovage://``.

Queues are KubeMQ queues, fanout exchanges (remote control, events) are KubeMQ
events. Direct exchanges need nothing of the broker: Celery publishes to a queue
by its name.
"""

from __future__ import annotations

import json
from collections import deque
from queue import Empty
from typing import Any

from kombu.transport import virtual
from kubemq.common.cancellation_token import CancellationToken
from kubemq.queues.queues_message_received import QueueMessageReceived

from . import messages
from .broker import DEFAULT_PORT, SHORTEST_WAIT, Broker, Refused, Unavailable
from .names import channel_name


class Channel(virtual.Channel):
    """A kombu channel. All channels of a connection share one Broker."""

    supports_fanout = True
    # The broker hands out again what a closed connection has not acked.
    do_restore = False

    from_transport_options = (*virtual.Channel.from_transport_options, "max_delay", "wait_timeout")
    #: The longest delay in seconds that the broker takes.
    max_delay: int = messages.LONGEST
    #: How long one look into a queue waits for a message, in seconds, at least 1.
    wait_timeout: int = SHORTEST_WAIT

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self.broker = connection.broker
        self._received: dict[str, QueueMessageReceived] = {}
        self._unacked_queues: set[str] = set()
        self._subscriptions: dict[str, CancellationToken] = {}
        self._broadcasts: dict[str, deque[bytes]] = {}

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self.broker.send(channel_name(queue), messages.encode(message, self.max_delay))

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        if queue in self._broadcasts:
            return self._get_broadcast(queue)
        channel = channel_name(queue)
        received = self.broker.receive(channel, self.wait_timeout)
        if received is None:
            raise Empty
        try:
            envelope = messages.decode(received.body)
            tag = envelope["properties"]["delivery_tag"]
        except (ValueError, KeyError, TypeError):
            # Kept, but out of the way: every consumer would fail on it again.
            received.re_queue(f"{channel}.unprocessable")
            raise Empty from None
        if queue in self._unacked_queues:
            received.ack()
        else:
            self._received[tag] = received
        return envelope

    def _get_broadcast(self, queue: str) -> dict[str, Any]:
        try:
            return messages.decode(self._broadcasts[queue].popleft())
        except (IndexError, ValueError):
            raise Empty from None

    def _purge(self, queue: str) -> int:
        return self.broker.purge(channel_name(queue))

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any
    ) -> None:
        self.broker.broadcast(channel_name(exchange), json.dumps(message).encode())

    def _queue_bind(self, exchange: str, routing_key: str, pattern: Any, queue: str) -> None:
        if self.typeof(exchange).type != "fanout" or queue in self._subscriptions:
            return
        waiting: deque[bytes] = deque()
        self._broadcasts[queue] = waiting
        self._subscriptions[queue] = self.broker.subscribe(channel_name(exchange), waiting.append)

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Remember which queues nobody acks, such as those of control replies."""
        if no_ack:
            self._unacked_queues.add(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Tell the broker that the message is done."""
        received = self._received.pop(delivery_tag, None)
        if received is not None:
            received.ack()
        super().basic_ack(delivery_tag, multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Hand the message back, or drop it."""
        received = self._received.pop(delivery_tag, None)
        if received is not None:
            if requeue:
                received.re_queue(received.channel)
            else:
                received.ack()
        # kombu would publish a second copy if it were told to requeue.
        super().basic_reject(delivery_tag, requeue=False)

    def close(self) -> None:
        """End the subscriptions of the channel. The connection stays."""
        for token in self._subscriptions.values():
            token.cancel()
        self._subscriptions.clear()
        super().close()


class Transport(virtual.Transport):
    """A kombu connection."""

    Channel = Channel

    default_port = DEFAULT_PORT
    driver_type = "lovage"
    driver_name = "kubemq"
    # A look into an empty queue waits in the broker already.
    polling_interval = 0.05

    connection_errors = (*virtual.Transport.connection_errors, Unavailable)
    channel_errors = (*virtual.Transport.channel_errors, Refused)

    implements = virtual.Transport.implements.extend(
        asynchronous=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.broker = Broker(client.hostname, client.port, client.password)

    def establish_connection(self) -> Transport:
        """Connect, or raise Unavailable."""
        self.broker.ping()
        return super().establish_connection()

    def close_connection(self, connection: Transport) -> None:
        """Close the channels and what they share."""
        super().close_connection(connection)
        self.broker.close()

    def verify_connection(self, connection: Transport) -> bool:
        """Tell whether the broker answers."""
        try:
            self.broker.ping()
        except (Unavailable, Refused):
            return False
        return True
