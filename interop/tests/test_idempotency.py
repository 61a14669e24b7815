"""Messages that are delivered twice, tasks that are published twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.result import AsyncResult
from conftest import MakeStack
from harness import Runs, eventually
from stack import QUEUE, SOON, Stack

from deterministic_id import deterministic_id
from lovage_kombu.broker import Broker
from lovage_kombu.messages import Outgoing

pytestmark = pytest.mark.core

ROOT = Path(__file__).parent.parent.parent
# Nobody consumes it: the tests take the bytes that Celery has sent from there.
ASIDE = "aside"


class Sender:
    """Sends what Celery has made, as often as a test wants."""

    def __init__(self, app: Celery, broker: Broker) -> None:
        self._app = app
        self._broker = broker

    def prepare(self, name: str, *args: Any) -> tuple[AsyncResult, bytes]:
        """Return the result of a task and the bytes of its message, which isn't sent."""
        result = self._app.send_task(name, args, queue=ASIDE)
        body = eventually(lambda: self._broker.peek(ASIDE), what="the message")
        self._broker.purge(ASIDE)
        return result, body

    def send(self, body: bytes) -> None:
        """Send the bytes once more."""
        headers = json.loads(body)["headers"]
        self._broker.send(QUEUE, Outgoing(body=body, metadata=json.dumps(headers)))


@pytest.fixture
def sender(stack: Stack) -> Iterator[Sender]:
    broker = stack.broker
    yield Sender(stack.app, broker)
    broker.close()


def test_an_id_that_is_published_again_gets_the_new_result(app: Celery, runs: Runs):
    task_id = str(uuid4())
    task = "interop.ack.early.acked"
    with pytest.raises(ValueError, match="broken"):
        app.send_task(task, [runs.path, "failure"], task_id=task_id).get(timeout=SOON)
    app.send_task(task, [runs.path, "success"], task_id=task_id)
    eventually(lambda: app.AsyncResult(task_id).state == "SUCCESS", SOON, "the second result")


@pytest.mark.parametrize("name", ["interop.count", "interop.count_late"])
def test_message_that_comes_three_times_runs_once(
    stack: Stack, sender: Sender, runs: Runs, name: str
):
    result, body = sender.prepare(name, runs.path, 5, 0.5)
    sender.send(body)
    eventually(lambda: result.id in runs.started, what="the first run")
    sender.send(body)  # while it runs
    assert result.get(timeout=SOON) == 5
    sender.send(body)  # after its end
    eventually(
        lambda: stack.worker.program.log.count(f"[{result.id}] was delivered twice") == 2,
        what="both duplicates",
    )
    assert runs.started == runs.ended == {result.id: 1}


def test_task_that_is_published_again_under_its_id_runs_again(app: Celery, runs: Runs):
    task_id = str(uuid4())
    for count in (1, 2):
        app.send_task("interop.count_late", [runs.path, count], task_id=task_id)
        eventually(lambda count=count: runs.ended[task_id] == count, what=f"run {count}")


def test_killed_worker_runs_what_it_had_not_finished(make_stack: MakeStack, runs: Runs):
    stack = make_stack(worker_deduplicate_successful_tasks=True)
    finished = stack.app.send_task("interop.count_late", [runs.path, 1])
    assert finished.get(timeout=SOON) == 1
    cut_off = stack.app.send_task("interop.count_late", [runs.path, 2, 5])
    eventually(lambda: cut_off.id in runs.started, what="the long task")
    stack.worker.kill()
    stack.worker.start()
    assert cut_off.get(timeout=SOON) == 2
    assert runs.started == {finished.id: 1, cut_off.id: 2}
    assert runs.ended == {finished.id: 1, cut_off.id: 1}


@pytest.mark.parametrize(("deduplicate", "expected"), [(True, 1), (False, 2)])
def test_ack_that_died_with_the_worker(
    make_stack: MakeStack, runs: Runs, deduplicate: bool, expected: int
):
    stack = make_stack(worker_deduplicate_successful_tasks=deduplicate)
    broker = stack.broker
    try:
        sender = Sender(stack.app, broker)
        result, body = sender.prepare("interop.count_late", runs.path, 5)
        sender.send(body)
        assert result.get(timeout=SOON) == 5
        # The result is stored; the window of the worker is lost with it. What the
        # broker would deliver again are these bytes.
        stack.worker.kill()
        stack.worker.start()
        sender.send(body)
        if deduplicate:
            stack.worker.program.wait_for_log("Task already completed successfully")
        stack.worker.program.wait_for_log(rf"{result.id}\] succeeded in \S+s: 5")
        assert result.get(timeout=SOON) == 5
        assert runs.ended[result.id] == expected
    finally:
        broker.close()


def test_once_runs_one_of_several_calls(app: Celery, runs: Runs):
    results = [app.send_task("interop.count_once", [runs.path, 7, 2]) for _ in range(3)]
    results.append(
        app.send_task("interop.count_once", kwargs={"path": runs.path, "value": 7, "seconds": 0})
    )
    assert [result.get(timeout=SOON) for result in results] == [7, 7, 7, 7]
    assert sum(runs.started.values()) == 1
    other = app.send_task("interop.count_once", [runs.path, 8])
    assert other.get(timeout=SOON) == 8
    assert runs.started[other.id] == 1


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["A1", 7, 9.9, True, None],
        [{"b": 1, "a": {"ü": [], "😀": "\u2028"}}, [1, [2.0, -0.0]]],
        [2**70, 1e16, 1e-7, 123456789.125, "\x00\x7f\\\"/"],
    ],
)
def test_go_and_python_make_the_same_id(app: Celery, args: list[Any]):
    made = app.send_task("interop.deterministic_id", ["shop.charge", *args]).get(timeout=SOON)
    assert made == deterministic_id("shop.charge", *args)


def test_golden_ids_are_pythons():
    lines = (ROOT / "pkg/tasks/testdata/deterministic_ids.txt").read_text().splitlines()
    assert len(lines) > 20
    for line in lines:
        made, call = line.split(" ", 1)
        assert made == deterministic_id(*json.loads(call)), line


def test_the_guide_shows_the_function_that_is_tested():
    source = (ROOT / "interop/deterministic_id.py").read_text()
    function = source[source.index("def deterministic_id") :]
    body = [line for line in function.splitlines() if '"""' not in line and line]
    guide = (ROOT / "docs/idempotency.md").read_text(encoding="utf-8")
    assert "\n".join(body) in guide


def test_publishing_under_a_deterministic_id_is_one_task(make_stack: MakeStack, runs: Runs):
    stack = make_stack(worker_deduplicate_successful_tasks=True)
    task_id = deterministic_id("interop.count_late", runs.path, 3)
    for _ in range(3):
        result = stack.app.send_task("interop.count_late", [runs.path, 3], task_id=task_id)
        assert result.get(timeout=SOON) == 3
    eventually(
        lambda: stack.worker.program.log.count("Task already completed successfully") == 2,
        what="the two that were skipped",
    )
    assert runs.ended[task_id] == 1
