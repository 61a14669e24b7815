"""Tasks of a Ray Serve queue: results, retries, dead letters, messages that are no task."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

import pytest
from harness import eventually
from rayserve_peer import PATIENCE, task
from rayserve_stack import FAILED, MAX_RETRIES, ODD, RayServe


def in_queue(rayserve: RayServe, queue: str, part: str) -> list[bytes]:
    """Return the bodies in a queue that hold a text, once there is one."""

    def found() -> list[bytes]:
        bodies = [message.body for message in rayserve.peer.peek(queue)]
        return [body for body in bodies if part.encode() in body]

    return eventually(found, PATIENCE, f"{part} in {queue}")


def goes_on(rayserve: RayServe) -> bool:
    return rayserve.peer.wait(rayserve.peer.enqueue("interop.add", 20, 22))["result"] == 42


def test_result_is_a_record_of_the_adapter(rayserve: RayServe):
    call = task(str(uuid4()), "interop.greet", "Zoë", times=2)
    rayserve.peer.put(json.dumps(call).encode())
    record = rayserve.peer.wait(call["task_id"])
    assert list(record) == ["task_id", "status", "result", "created_at", "completed_at"]
    assert record["task_id"] == call["task_id"]
    assert record["status"] == "SUCCESS"
    assert record["result"] == "Hello, Zoë! Hello, Zoë! "
    assert record["created_at"] == call["created_at"]
    completed = datetime.fromisoformat(record["completed_at"])
    assert datetime.fromisoformat(call["created_at"]) <= completed <= datetime.now(timezone.utc)


def test_values_are_the_same_on_both_sides(rayserve: RayServe):
    values = [None, True, 2**70, -0.5, 1e300, "é😀", [], {"nested": [{"a": None}]}, float("inf")]
    # A name that Celery's JSON would take for a type is a plain key here.
    keywords = {"odd": {"__type__": "datetime", "__value__": "2026-01-01"}, "plain": "x"}
    record = rayserve.peer.wait(rayserve.peer.enqueue("interop.echo", *values, **keywords))
    assert record["status"] == "SUCCESS"
    assert record["result"] == [values, keywords]


def test_whole_float_for_an_integer(rayserve: RayServe):
    assert rayserve.peer.wait(rayserve.peer.enqueue("interop.add", 1.0, 2))["result"] == 3
    record = rayserve.peer.wait(rayserve.peer.enqueue("interop.add", 1.5, 2))
    assert record["status"] == "FAILURE"


def test_transient_failure_is_retried_to_success(rayserve: RayServe):
    times = MAX_RETRIES - 1
    task_id = rayserve.peer.enqueue("interop.fail_first", rayserve.runs.path, times)
    record = rayserve.peer.wait(task_id)
    assert (record["status"], record["result"]) == ("SUCCESS", MAX_RETRIES)
    assert rayserve.runs.started[task_id] == MAX_RETRIES
    assert rayserve.on_dlq(task_id) == []
    assert not [m for m in rayserve.peer.peek(FAILED) if task_id.encode() in m.body]


def test_permanent_failure_ends_in_the_failed_task_queue(rayserve: RayServe):
    task_id = rayserve.peer.enqueue("interop.fail_first", rayserve.runs.path, 99)
    record = rayserve.peer.wait(task_id)
    assert (record["status"], record["result"]) == ("FAILURE", None)
    assert record["error"] == f"ValueError: no GPU, delivery {MAX_RETRIES}"
    letters = in_queue(rayserve, FAILED, task_id)
    assert [json.loads(letter)["task_id"] for letter in letters] == [task_id]
    told = eventually(lambda: rayserve.on_dlq(task_id), PATIENCE, "on_dlq")
    assert len(told) == 1
    assert f"no GPU, delivery {MAX_RETRIES}" in told[0]
    assert goes_on(rayserve)
    # Nothing has come after it.
    assert rayserve.runs.started[task_id] == MAX_RETRIES
    assert len(rayserve.on_dlq(task_id)) == 1


def test_panic_is_a_failure(rayserve: RayServe):
    record = rayserve.peer.wait(rayserve.peer.enqueue("interop.panic", "out of memory"))
    assert record["status"] == "FAILURE"
    assert "out of memory" in record["error"]


def test_arguments_that_fit_no_parameter_fail(rayserve: RayServe):
    record = rayserve.peer.wait(rayserve.peer.enqueue("interop.add", 1, 2, 3))
    assert record["status"] == "FAILURE"
    assert record["error"].startswith("TypeError: ")


def nameless(task_id: str) -> dict[str, Any]:
    return {"task_id": task_id, "args": [], "kwargs": {}}


@pytest.mark.parametrize(
    ("make", "stored"),
    [
        (lambda mark: b"\x80\x04pickle" + mark.encode(), False),
        (lambda mark: b'{"task_id": "' + mark.encode(), False),
        (lambda mark: json.dumps([mark]).encode(), False),
        (lambda mark: json.dumps(nameless(mark)).encode(), True),
        (lambda mark: json.dumps({**task(mark, "interop.add"), "args": {}}).encode(), True),
    ],
    ids=["not UTF-8", "cut off", "no object", "no name", "args no list"],
)
def test_malformed_message_is_kept_and_the_queue_goes_on(
    rayserve: RayServe, make: Any, stored: bool
):
    mark = str(uuid4())
    body = make(mark)
    rayserve.peer.put(body)
    assert goes_on(rayserve)
    assert in_queue(rayserve, ODD, mark) == [body]
    # A caller who can be told is told.
    if stored:
        record = rayserve.peer.wait(mark)
        assert record["status"] == "FAILURE"
        assert "malformed" in record["error"]


def test_unknown_task_is_told_and_kept(rayserve: RayServe):
    task_id = rayserve.peer.enqueue("nobody.knows_this", 1)
    record = rayserve.peer.wait(task_id)
    assert record["status"] == "FAILURE"
    assert "nobody.knows_this" in record["error"]
    letters = in_queue(rayserve, ODD, task_id)
    assert [json.loads(letter)["args"] for letter in letters] == [[1]]
    assert goes_on(rayserve)
