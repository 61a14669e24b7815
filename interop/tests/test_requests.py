"""Synchronous requests between KubeMQ's SDK and the worker's transport, both ways."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import Program, Service, binary, free_port
from kubemq.common.cancellation_token import CancellationToken
from kubemq.cq import Client, QueriesSubscription, QueryMessage, QueryReceived, QueryResponse
from stack import BROKER_READY, SOON, broker_settings

CHANNEL = "models.resnet"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where a broker listens."""
    directory, port = tmp_path_factory.mktemp("requests"), free_port()
    settings = {"embedded_broker": broker_settings(directory, port)}
    with Service([binary("LOVAGE_BIN"), "broker"], directory, settings, BROKER_READY).running():
        yield f"127.0.0.1:{port}"


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """Return the SDK's client of the broker."""
    with Client(address=address, client_id="python") as connected:
        yield connected


@pytest.fixture(scope="module")
def responder(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Return the Go program that answers the channel."""
    command = [binary("LOVAGE_REQUESTPEER_BIN"), "-broker", address, "respond", CHANNEL]
    program = Program(command, tmp_path_factory.mktemp("responder"))
    try:
        program.wait_for_log("responding")
        yield program
    finally:
        assert program.stop() == 0


def ask(client: Client, body: bytes, timeout: int = SOON, channel: str = CHANNEL) -> QueryResponse:
    return client.send_query(QueryMessage(channel=channel, body=body, timeout_in_seconds=timeout))


def test_go_answers(client: Client, responder: Program):
    response = ask(client, b"cat.jpg")
    assert response.is_executed
    assert response.error == ""
    assert response.body == b"re: cat.jpg"


def test_go_answers_several_at_once(client: Client, responder: Program):
    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda i: ask(client, b"%d" % i), range(40)))
    assert [response.body for response in responses] == [b"re: %d" % i for i in range(40)]


def test_go_is_out_of_time(client: Client, responder: Program):
    begun = time.monotonic()
    with pytest.raises(Exception, match="Error 301: timeout for request message"):
        ask(client, b"never", timeout=1)
    assert time.monotonic() - begun >= 1
    responder.wait_for_log("given up: context deadline exceeded")


def test_gos_answer_is_too_large(client: Client, responder: Program):
    response = ask(client, b"huge")
    assert not response.is_executed
    assert "answer of 131072 bytes" in response.error
    assert response.body == b""


def test_nobody_answers(client: Client):
    with pytest.raises(Exception, match="Error 301: timeout for request message"):
        ask(client, b"x", timeout=1, channel="models.nobody")


Ask = Callable[[str, str], str]


@pytest.fixture
def go_asks(client: Client, address: str) -> Iterator[Ask]:
    """Return a function with which Go asks a Python subscriber."""
    channel, cancel = "models.python", CancellationToken()

    def answer(query: QueryReceived) -> None:
        if query.body == b"never":
            return
        done = query.body != b"bad"
        response = QueryResponse(
            query_received=query,
            body=b"python says " + query.body if done else b"",
            is_executed=done,
            error="" if done else "bad picture",
        )
        client.send_response_message(response)

    def go(body: str, timeout: str) -> str:
        command = [binary("LOVAGE_REQUESTPEER_BIN"), "-broker", address, "ask", channel, body]
        run = subprocess.run([*command, timeout], capture_output=True, text=True, timeout=2 * SOON)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    subscription = QueriesSubscription(
        channel=channel, on_receive_query_callback=answer, on_error_callback=lambda error: None
    )
    client.subscribe_to_queries(subscription, cancel)
    # The SDK doesn't say when a subscription is active.
    deadline = time.monotonic() + SOON
    while go("ready", "500ms") != "answer: python says ready":
        assert time.monotonic() < deadline
    yield go
    cancel.cancel()


def test_python_answers(go_asks: Ask):
    assert go_asks("cat.jpg", f"{SOON}s") == "answer: python says cat.jpg"
    assert go_asks("bad", f"{SOON}s") == "not executed: bad picture"
    assert go_asks("never", "1s") == "no answer"
