"""KubeMQ's unmodified Python SDK (kubemq 4.1.5) against the embedded broker.

The broker's address comes from the environment variable LOVAGE_BROKER_ADDRESS;
without it the tests fail.
"""

import os
import queue
import threading
import time
import uuid

import pytest
from kubemq.common.cancellation_token import CancellationToken
from kubemq.pubsub import Client as PubSubClient
from kubemq.pubsub import EventMessage, EventsSubscription
from kubemq.queues import Client as QueuesClient
from kubemq.queues import QueueMessage

ADDRESS = os.environ["LOVAGE_BROKER_ADDRESS"]


@pytest.fixture
def client():
    with QueuesClient(address=ADDRESS, client_id="interop") as client:
        yield client


@pytest.fixture
def pubsub():
    with PubSubClient(address=ADDRESS, client_id="interop") as client:
        yield client


@pytest.fixture
def name():
    return f"interop.{uuid.uuid4()}"


def send(client, channel, *bodies, **fields):
    for body in bodies:
        result = client.send_queue_message(QueueMessage(channel=channel, body=body, **fields))
        assert not result.is_error, result.error
        assert result.id


def receive(client, channel, max_messages=1, wait=2, auto_ack=False):
    response = client.receive_queue_messages(
        channel=channel, max_messages=max_messages, wait_timeout_in_seconds=wait, auto_ack=auto_ack
    )
    assert not response.is_error, response.error
    return response


def bodies(response):
    return [message.body for message in response.messages]


def settled(client, channel, waiting):
    """Waits until the queue's depth shows that settlements took effect."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = [c for c in client.list_queues_channels(channel) if c.name == channel]
        depth = found[0].incoming.waiting if found else 0
        if depth == waiting:
            return
        time.sleep(0.02)
    pytest.fail(f"{channel}: {depth} messages are waiting, not {waiting}")


def test_ping_reports_a_version_the_sdk_accepts(client):
    info = client.ping()
    assert info.version == "2.6.0"
    assert info.host


@pytest.mark.parametrize("method", ["send_queue_message", "send_queue_message_simple"])
def test_send_and_receive_everything_of_a_message(client, name, method):
    message = QueueMessage(
        channel=name, id="my-id", body=b"\x00body\xff", metadata="meta", tags={"a": "1", "b": "ü"}
    )
    result = getattr(client, method)(message)
    assert not result.is_error, result.error
    assert result.id == "my-id"

    got = receive(client, name).messages[0]
    assert (got.id, got.body, got.metadata) == ("my-id", b"\x00body\xff", "meta")
    assert got.tags["a"] == "1" and got.tags["b"] == "ü"
    assert (got.channel, got.from_client_id) == (name, "interop")
    assert (got.sequence, got.receive_count, got.is_re_routed) == (1, 1, False)
    got.ack()
    settled(client, name, 0)


def test_batch_keeps_order_and_flags_only_bad_messages(client, name):
    batch = [QueueMessage(channel=name, body=b"%d" % i) for i in range(10)]
    result = client.send_queue_messages_batch(batch)
    assert not result.have_errors
    assert [r.is_error for r in result.results] == [False] * 10
    response = receive(client, name, max_messages=100)
    assert bodies(response) == [b"%d" % i for i in range(10)]
    response.ack_all()
    settled(client, name, 0)


def test_get_answers_at_once_with_what_is_there(client, name):
    send(client, name, b"only one")
    start = time.monotonic()
    response = receive(client, name, max_messages=50, wait=10)
    assert bodies(response) == [b"only one"]
    assert time.monotonic() - start < 2


def test_wait_zero_answers_within_the_sdks_half_second(client, name):
    assert bodies(receive(client, name, wait=0)) == []
    send(client, name, b"there")
    assert bodies(receive(client, name, wait=0)) == [b"there"]


def test_auto_ack(client, name):
    send(client, name, b"a", b"b")
    assert bodies(receive(client, name, max_messages=2, auto_ack=True)) == [b"a", b"b"]
    settled(client, name, 0)


def test_ack_does_not_wait_behind_a_get_of_the_same_stream(client, name):
    send(client, name, b"work")
    message = receive(client, name).messages[0]
    idle = threading.Thread(target=receive, args=(client, name + ".idle", 1, 4))
    idle.start()
    time.sleep(0.2)
    start = time.monotonic()
    message.ack()
    settled(client, name, 0)
    assert time.monotonic() - start < 2
    idle.join()


def test_nack_counts_and_ends_in_the_dead_letter_queue(client, name):
    dead = name + ".dead"
    send(client, name, b"poison", max_receive_count=3, max_receive_queue=dead)
    for count in (1, 2, 3):
        message = receive(client, name).messages[0]
        assert message.receive_count == count
        message.nack()
    letter = receive(client, dead).messages[0]
    assert letter.body == b"poison"
    assert letter.is_re_routed and letter.re_route_from_queue == name
    assert letter.receive_count == 1
    letter.ack()
    settled(client, name, 0)
    settled(client, dead, 0)


def test_nack_goes_to_the_tail(client, name):
    send(client, name, b"1", b"2")
    receive(client, name).messages[0].nack()
    assert bodies(receive(client, name, max_messages=1)) == [b"2"]
    assert bodies(receive(client, name, max_messages=1)) == [b"1"]


def test_requeue_moves_and_starts_to_count_again(client, name):
    other = name + ".other"
    send(client, name, b"x")
    receive(client, name).messages[0].nack()
    message = receive(client, name).messages[0]
    assert message.receive_count == 2
    message.re_queue(other)
    moved = receive(client, other).messages[0]
    assert (moved.body, moved.receive_count, moved.is_re_routed) == (b"x", 1, False)
    settled(client, name, 0)


def test_whole_response_operations(client, name):
    send(client, name, b"1", b"2", b"3")
    receive(client, name, max_messages=3).reject_all()
    again = receive(client, name, max_messages=3)
    assert bodies(again) == [b"1", b"2", b"3"]
    assert [m.receive_count for m in again.messages] == [2, 2, 2]
    again.re_queue_all(name + ".moved")
    moved = receive(client, name + ".moved", max_messages=3)
    assert bodies(moved) == [b"1", b"2", b"3"]
    moved.ack_all()
    settled(client, name + ".moved", 0)


def test_closing_a_client_gives_its_messages_back(client, name):
    send(client, name, b"1", b"2")
    with QueuesClient(address=ADDRESS, client_id="other") as other:
        assert bodies(receive(other, name, max_messages=2)) == [b"1", b"2"]
        assert bodies(receive(client, name, wait=0)) == []
    again = receive(client, name, max_messages=2)
    assert bodies(again) == [b"1", b"2"]
    assert [m.receive_count for m in again.messages] == [1, 1]


def test_peek_shows_and_keeps(client, name):
    send(client, name, b"1", b"2")
    for _ in range(2):
        start = time.monotonic()
        peeked = client.peek_queue_messages(name, max_messages=10, wait_timeout_in_seconds=5)
        assert not peeked.is_error, peeked.error
        assert [m.body for m in peeked.messages] == [b"1", b"2"]
        assert time.monotonic() - start < 2
    settled(client, name, 2)


def test_peek_waits_for_a_first_message(client, name):
    sender = threading.Timer(0.5, send, args=(client, name, b"late"))
    sender.start()
    peeked = client.peek_queue_messages(name, max_messages=1, wait_timeout_in_seconds=5)
    assert [m.body for m in peeked.messages] == [b"late"]
    sender.join()


def test_pull_takes(client, name):
    send(client, name, b"1", b"2")
    pulled = client.pull(name, max_messages=10, wait_timeout_in_seconds=1)
    assert [m.body for m in pulled.messages] == [b"1", b"2"]
    settled(client, name, 0)


def test_ack_all_answers_early(client, name):
    send(client, name, *[b"x"] * 20)
    start = time.monotonic()
    assert client.ack_all_queue_messages(name, wait_time_seconds=10) == 20
    assert client.ack_all_queue_messages(name, wait_time_seconds=10) == 0
    assert time.monotonic() - start < 5


def test_delay_is_kept_and_punctual(client, name):
    start = time.monotonic()
    send(client, name, b"later", delay_in_seconds=1)
    send(client, name, b"now")
    assert bodies(receive(client, name, max_messages=2)) == [b"now"]
    assert bodies(receive(client, name, wait=4)) == [b"later"]
    assert 0.95 < time.monotonic() - start < 1.5


def test_a_day_of_delay_and_expiration_is_accepted(client, name):
    send(client, name, b"x", delay_in_seconds=86_400, expiration_in_seconds=86_400)
    listed = [c for c in client.list_queues_channels(name) if c.name == name]
    assert listed[0].incoming.delayed == 1
    assert listed[0].incoming.waiting == 0


def test_expired_messages_are_passed_over(client, name):
    send(client, name, b"short", expiration_in_seconds=1)
    send(client, name, b"long")
    time.sleep(1.2)
    assert bodies(receive(client, name, max_messages=1, wait=1)) == [b"long"]


def test_channels_are_created_listed_and_deleted(client, name):
    def listed():
        return [c.name for c in client.list_queues_channels(name)]

    assert listed() == []
    client.create_queues_channel(name)
    assert listed() == [name]
    send(client, name, b"1", b"2")
    channel = client.list_queues_channels(name)[0]
    assert (channel.type, channel.is_active) == ("queues", True)
    assert (channel.incoming.messages, channel.incoming.waiting) == (2, 2)
    assert isinstance(channel.last_activity, int)
    client.delete_queues_channel(name)
    assert listed() == []
    assert bodies(receive(client, name, wait=0)) == []


def test_refusals_have_the_original_texts(client):
    result = client.send_queue_message(QueueMessage(channel="a..b", body=b"x"))
    assert result.is_error
    assert result.error.startswith("Error 120: invalid queue name value")


def subscribe(pubsub, channel, group=None):
    events, cancel = queue.Queue(), CancellationToken()
    subscription = EventsSubscription(
        channel=channel,
        group=group,
        on_receive_event_callback=events.put,
        on_error_callback=lambda error: None,
    )
    pubsub.subscribe_to_events(subscription, cancel)
    return events, cancel


def published_until_seen(publish, events, deadline=5):
    """Publishes until a subscription, which is not confirmed, is active."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        publish(b"probe")
        try:
            events.get(timeout=0.1)
            return
        except queue.Empty:
            pass
    pytest.fail("subscription did not become active")


def drained(events):
    time.sleep(0.3)
    seen = []
    while not events.empty():
        seen.append(events.get().body)
    return [body for body in seen if body != b"probe"]


@pytest.mark.parametrize("method", ["publish_event", "send_event"])
def test_events_reach_every_subscriber(pubsub, name, method):
    def publish(body):
        getattr(pubsub, method)(EventMessage(channel=name, body=body, metadata="m", tags={"k": "v"}))

    first, cancel_first = subscribe(pubsub, name)
    second, cancel_second = subscribe(pubsub, name)
    published_until_seen(publish, first)
    published_until_seen(publish, second)
    for i in range(5):
        publish(b"%d" % i)
    expected = [b"%d" % i for i in range(5)]
    assert drained(first) == expected
    assert drained(second) == expected
    cancel_first.cancel()
    cancel_second.cancel()


def test_a_group_shares_events(pubsub, name):
    def publish(body):
        pubsub.publish_event(EventMessage(channel=name, body=body))

    members = [subscribe(pubsub, name, group="g") for _ in range(2)]
    for events, _ in members:
        published_until_seen(publish, events)
    for i in range(20):
        publish(b"%d" % i)
    seen = [body for events, _ in members for body in drained(events)]
    assert sorted(seen, key=int) == [b"%d" % i for i in range(20)]
    for _, cancel in members:
        cancel.cancel()


def test_wildcard_subscriptions(pubsub, name):
    def publish(body, channel=name + ".a"):
        pubsub.publish_event(EventMessage(channel=channel, body=body))

    one, cancel_one = subscribe(pubsub, name + ".*")
    rest, cancel_rest = subscribe(pubsub, name + ".>")
    published_until_seen(publish, one)
    published_until_seen(publish, rest)
    publish(b"1", name + ".b")
    publish(b"2", name + ".b.c")
    publish(b"3", name)
    assert drained(one) == [b"1"]
    assert drained(rest) == [b"1", b"2"]
    cancel_one.cancel()
    cancel_rest.cancel()
