"""worker dlq, on letters that Python sent, with Python looking at what comes out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from celery.exceptions import Reject
from harness import binary, eventually
from stack import QUEUE, SOON, Stack

pytestmark = pytest.mark.core

DEAD = "failed"


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return a worker that has a dead letter queue."""
    with Stack(tmp_path_factory.mktemp("letters"), dead_letter_queue=DEAD).running() as stack:
        yield stack


def dlq(stack: Stack, *arguments: str) -> list[dict[str, Any]]:
    """Run worker dlq and return what it printed."""
    broker = f"kubemq://127.0.0.1:{stack.port}"
    command = [binary("LOVAGE_BIN"), "dlq", *arguments, "--json", "-b", broker]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def letter(stack: Stack, queue: str, task_id: str) -> dict[str, Any]:
    """Return the one letter of a task, once it is there."""
    found = eventually(lambda: dlq(stack, "list", queue, "--id", task_id), SOON)
    assert len(found) == 1
    return found[0]


def test_edited_letter_runs(letters: Stack):
    result = letters.app.send_task("interop.reject", kwargs={"message": "no good"})
    with pytest.raises(Reject):
        result.get(timeout=SOON)
    found = letter(letters, DEAD, result.id)
    assert (found["task"], found["from"]) == ("interop.reject", QUEUE)
    assert found["reason"] == "rejected"
    assert "no good" in found["error"]

    change = ["--kwargs", '{"name": "Ada", "times": 1}', "--set-header", "task=interop.greet"]
    done = dlq(letters, "edit", DEAD, result.id, *change, "--replay")
    assert [(one["id"], one["to"]) for one in done] == [(result.id, QUEUE)]
    eventually(lambda: letters.app.AsyncResult(result.id).state == "SUCCESS", SOON)
    assert letters.app.AsyncResult(result.id).get(timeout=SOON) == "Hello, Ada! "
    assert dlq(letters, "list", DEAD, "--id", result.id) == []


def test_replay_for_python(letters: Stack):
    """What the Go worker doesn't know goes to a queue that Python reads, as it was sent."""
    sent = letters.app.send_task("python.only", ["é", 2**70], {"when": 1.5}, headers={"tenant": "a"})
    unprocessable = f"{QUEUE}.unprocessable"
    assert letter(letters, unprocessable, sent.id)["reason"] == "unregistered"
    done = dlq(letters, "replay", unprocessable, "--id", sent.id, "--to", "python-only")
    assert [one["task"] for one in done] == ["python.only"]
    with letters.app.connection_for_read() as connection:
        queue = connection.SimpleQueue("python-only")
        message = queue.get(timeout=SOON)
        message.ack()
        queue.close()
    assert message.headers["id"] == sent.id
    assert message.headers["tenant"] == "a"
    assert message.payload[:2] == [["é", 2**70], {"when": 1.5}]


def test_purge(letters: Stack):
    ids = [letters.app.send_task("interop.reject", kwargs={"message": text}).id for text in "ab"]
    for task_id in ids:
        letter(letters, DEAD, task_id)
    assert [one["id"] for one in dlq(letters, "purge", DEAD, "--id", ids[0])] == [ids[0]]
    assert [one["id"] for one in dlq(letters, "list", DEAD)] == [ids[1]]
