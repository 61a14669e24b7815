"""Tasks that end otherwise than by a result, and the states on the way."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from celery import Celery
from harness import Runs, eventually
from stack import SOON, Stack

pytestmark = pytest.mark.core


def test_retry_then_success(app: Celery):
    assert app.send_task("interop.retry_then_succeed", [3]).get(timeout=SOON) == 3


def test_retry_with_countdown(app: Celery):
    before = time.monotonic()
    result = app.send_task("interop.retry_then_succeed", [2], {"countdown": 0.5})
    assert result.get(timeout=SOON) == 2
    assert time.monotonic() - before >= 1.0


def test_retry_state(app: Celery):
    result = app.send_task("interop.retry_then_succeed", [1], {"countdown": 3})
    eventually(lambda: result.state == "RETRY", what="state RETRY")
    assert isinstance(result.result, ValueError)
    assert result.get(timeout=SOON) == 1


def test_retries_exhausted(app: Celery):
    # As with Celery's retry(exc=...), the caller gets the cause.
    with pytest.raises(ValueError, match="^still broken$"):
        app.send_task("interop.retry_in_vain", ["still broken"]).get(timeout=SOON)


def test_retry_keeps_ignore_result(app: Celery, runs: Runs):
    result = app.send_task("interop.retry_then_succeed", [1], ignore_result=True)
    after = app.send_task("interop.retry_then_succeed", [2])
    assert after.get(timeout=SOON) == 2
    assert app.AsyncResult(result.id).state == "PENDING"


def test_reject(app: Celery):
    with pytest.raises(Exception, match="not mine") as caught:
        app.send_task("interop.reject", ["not mine"]).get(timeout=SOON)
    assert type(caught.value).__name__ == "Reject"


def test_ignore(app: Celery, stack: Stack):
    result = app.send_task("interop.ignore", ["nothing to see"])
    stack.worker.program.wait_for_log(f"ignored.*{result.id}|{result.id}.*ignored")
    assert app.AsyncResult(result.id).state == "PENDING"


def test_ignore_result(app: Celery, runs: Runs):
    result = app.send_task("interop.count", [runs.path, 1], ignore_result=True)
    eventually(lambda: runs.ended[result.id] == 1, what="the run of a task without result")
    # The next task on the same slot is done, so is everything of the first.
    assert app.send_task("interop.add", [1, 1]).get(timeout=SOON) == 2
    assert app.AsyncResult(result.id).state == "PENDING"


def test_started(app: Celery, runs: Runs):
    result = app.send_task("interop.count_tracked", [runs.path, 5, 1.5])
    eventually(lambda: result.state == "STARTED", what="state STARTED")
    assert result.info["pid"] > 0
    assert result.get(timeout=SOON) == 5


def test_result_meta(app: Celery):
    result = app.send_task("interop.add", [1, 2])
    assert result.get(timeout=SOON) == 3
    assert result.date_done is not None
    assert result.children == []
    assert result.traceback is None


ORDER = ["PENDING", "STARTED", "SUCCESS"]


class Watcher(threading.Thread):
    """Reads one task's result over and over and keeps what it read, changes only.

    A read that would see nothing waits in the broker until there is something; the
    number of messages in the result's queue shows the shortest gap.
    """

    def __init__(self, stack: Stack, task_id: str) -> None:
        super().__init__(daemon=True)
        self._broker = stack.broker
        self._channel = f"celery-result-{task_id}"
        self._done = threading.Event()
        self.states: list[str] = []
        self.stored: list[bool] = []

    def run(self) -> None:
        """Read until told to stop."""
        while not self._done.is_set():
            self._note(self.stored, self._broker.waiting(self._channel) > 0)
            if self.stored[-1]:
                body = self._broker.peek(self._channel)
                self._note(self.states, json.loads(body)["status"] if body else "PENDING")
        self._broker.close()

    @staticmethod
    def _note(seen: list[Any], value: Any) -> None:
        if seen[-1:] != [value]:
            seen.append(value)

    def stop(self) -> None:
        """End the reading."""
        self._done.set()
        self.join()


def test_state_never_goes_back(app: Celery, stack: Stack, runs: Runs):
    results = [app.send_task("interop.count_tracked", [runs.path, i, 0.3]) for i in range(16)]
    watchers = [Watcher(stack, result.id) for result in results]
    for watcher in watchers:
        watcher.start()
    assert [result.get(timeout=SOON) for result in results] == list(range(16))
    eventually(lambda: all(w.states[-1:] == ["SUCCESS"] for w in watchers), what="SUCCESS")
    # What would make it flicker happens around the moment of the last write.
    time.sleep(0.5)
    for watcher in watchers:
        watcher.stop()
    for watcher in watchers:
        assert watcher.states == sorted(watcher.states, key=ORDER.index)
        assert watcher.stored in ([True], [False, True])
