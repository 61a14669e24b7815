"""A Ray Serve queue whose worker or broker goes away."""

from __future__ import annotations

import signal

import pytest
from harness import eventually
from rayserve_peer import PATIENCE
from rayserve_stack import Apart


@pytest.mark.parametrize("end", ["finished", "handed back"])
def test_sigterm_during_a_task_of_five_seconds(apart: Apart, end: str):
    """It is finished, or, where nobody waits for that, handed back to another worker."""
    apart.worker.start()
    tasks = [apart.peer.enqueue("interop.count", apart.runs.path, n, 5) for n in range(4)]
    eventually(lambda: len(apart.runs.started) == 2, PATIENCE, "two tasks that run")
    apart.worker.program.send(signal.SIGTERM)
    apart.worker.program.wait_for_log("Warm shutdown", PATIENCE)
    if end == "handed back":
        apart.worker.program.send(signal.SIGQUIT)
    assert apart.worker.wait() == (0 if end == "finished" else 1)
    assert len(apart.runs.ended) == (2 if end == "finished" else 0)

    with apart.make_worker("second", worker_concurrency=4).running():
        assert [apart.peer.wait(one)["result"] for one in tasks] == [0, 1, 2, 3]
        eventually(lambda: apart.peer.depth(apart.peer.queue) == 0, PATIENCE, "an empty queue")
    # Each has ended once; what was handed back has begun twice.
    assert apart.runs.ended == dict.fromkeys(tasks, 1)
    assert sum(apart.runs.started.values()) == (4 if end == "finished" else 6)


def test_broker_restarts(apart: Apart):
    with apart.worker.running():
        running = [apart.peer.enqueue("interop.count", apart.runs.path, n, 0.5) for n in range(20)]
        eventually(lambda: len(apart.runs.started) >= 4, PATIENCE, "tasks that run")
        apart.broker.restart()
        assert len(apart.runs.ended) < 20, "the broker was restarted too late for this test"
        apart.peer.reconnect()
        after = [apart.peer.enqueue("interop.count", apart.runs.path, n) for n in range(20, 25)]
        results = [apart.peer.wait(one)["result"] for one in running + after]
        assert results == list(range(25))
        eventually(lambda: apart.peer.depth(apart.peer.queue) == 0, PATIENCE, "an empty queue")
    # Those whose acks were on the way may have run twice: no more than there are slots.
    assert set(apart.runs.ended) == {*running, *after}
    assert sum(count - 1 for count in apart.runs.ended.values()) <= 2
