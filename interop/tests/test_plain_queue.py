"""A queue without tasks: what KubeMQ's SDK shows of dead letters, with no worker near."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Program, Service, binary, free_port
from kubemq.queues import Client, QueueMessage
from stack import BROKER_READY, broker_settings

ATTEMPTS = 3
# The SDK waits whole seconds, and gets its answer as soon as there is one.
WAIT = 10


@pytest.fixture(params=["embedded", "2023"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Return the SDK's client of a broker, as it is and with the quirks of KubeMQ's of 2023."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    if request.param == "2023":
        command = [binary("LOVAGE_QUIRKBROKER_BIN"), f"-listen={address}"]
        program = Program(command, tmp_path)
        program.wait_for_log(BROKER_READY)
        stop = program.stop
    else:
        settings = {"embedded_broker": broker_settings(tmp_path, port)}
        service = Service([binary("LOVAGE_BIN"), "broker"], tmp_path, settings, BROKER_READY)
        service.start()
        stop = service.stop
    try:
        with Client(address=address, client_id="plain") as connected:
            yield connected
    finally:
        stop()


def test_rejected_for_good(client: Client):
    sent = client.send_queue_message(
        QueueMessage(
            channel="orders",
            body=b"unpayable",
            metadata="order 7",
            tags={"shop": "north"},
            max_receive_count=ATTEMPTS,
            max_receive_queue="orders.dead",
        )
    )
    assert not sent.is_error, sent.error

    for attempt in range(1, ATTEMPTS + 1):
        got = client.receive_queue_messages(
            channel="orders", max_messages=1, wait_timeout_in_seconds=WAIT
        )
        assert not got.is_error, got.error
        (message,) = got.messages
        assert (message.body, message.receive_count) == (b"unpayable", attempt)
        message.nack()

    dead = client.receive_queue_messages(
        channel="orders.dead", max_messages=1, wait_timeout_in_seconds=WAIT, auto_ack=True
    )
    assert not dead.is_error, dead.error
    (letter,) = dead.messages
    assert (letter.body, letter.metadata) == (b"unpayable", "order 7")
    assert letter.tags["shop"] == "north"
    assert letter.is_re_routed
    assert letter.re_route_from_queue == "orders"

    for queue in ("orders", "orders.dead"):
        left = client.receive_queue_messages(
            channel=queue, max_messages=1, wait_timeout_in_seconds=1
        )
        assert not left.messages, f"{queue} should be empty"
