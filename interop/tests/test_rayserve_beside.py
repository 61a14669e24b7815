"""A Ray Serve queue beside Celery's, beside Python's consumers, and its metrics."""

from __future__ import annotations

import json

from harness import eventually
from rayserve_peer import PATIENCE
from rayserve_stack import FAILED, MAX_RETRIES, MODELS, Apart, RayServe
from stack import SOON


def test_celery_and_ray_serve_in_one_process(rayserve: RayServe):
    celery = [rayserve.stack.app.send_task("interop.add", [n, 1]) for n in range(20)]
    ray = [rayserve.peer.enqueue("interop.add", n, 2) for n in range(20)]
    assert [result.get(timeout=SOON) for result in celery] == [n + 1 for n in range(20)]
    assert [rayserve.peer.wait(one)["result"] for one in ray] == [n + 2 for n in range(20)]


def test_metrics(apart: Apart):
    with apart.worker.running():
        ok = [apart.peer.enqueue("interop.count", apart.runs.path, n, 0.05) for n in range(3)]
        bad = apart.peer.enqueue("interop.fail_first", apart.runs.path, 99)
        for task_id in [*ok, bad]:
            apart.peer.wait(task_id)
        running = [apart.peer.enqueue("interop.until_cancelled", apart.runs.path) for _ in "12"]
        waiting = apart.peer.enqueue("interop.count", apart.runs.path, 4)
        metrics = eventually(
            lambda: (
                (found := apart.metrics())
                and found["in_flight"] == 2
                and found["queue_depth"] == 3
                and found["dlq_depth"] == 1
                and found
            ),
            PATIENCE,
            "two tasks that run, three in the queue, one letter",
        )
        for task_id in running:
            apart.peer.cancel(task_id)
        assert apart.peer.wait(waiting)["result"] == 4

    assert metrics["healthy"] is True
    assert metrics["tasks_enqueued_total"] == 0
    assert metrics["tasks_completed_total"] == {"SUCCESS": 3, "FAILURE": 1}
    assert metrics["result_storage_retries_total"] == 0
    durations = metrics["task_processing_duration_seconds"]
    assert set(durations) == {"min", "max", "avg", "count"}
    # Every delivery counts.
    assert durations["count"] == 3 + MAX_RETRIES
    assert 0 < durations["min"] <= durations["avg"] <= durations["max"]
    assert durations["max"] >= 0.05
    assert isinstance(metrics["consumer_poll_latency_seconds"], float)
    names = set(metrics) - {"healthy", "queues"}
    assert len(names) == 8
    assert set(metrics["queues"]) == {MODELS}
    assert names <= set(metrics["queues"][MODELS])


def test_python_consumer_shares_the_queue(apart: Apart):
    """Each takes some of the tasks, and a delivery counts whoever it goes to."""

    def broken(*_: object) -> None:
        raise ValueError("no GPU in Python")

    bad = apart.peer.enqueue("interop.fail_first", apart.runs.path, 99)
    for _ in range(MAX_RETRIES - 1):
        taken = eventually(lambda: apart.peer.consume_one(broken, MAX_RETRIES), PATIENCE)
        assert taken == bad
    with apart.worker.running():
        record = apart.peer.wait(bad)
        assert record["error"] == f"ValueError: no GPU, delivery {MAX_RETRIES}"
        letters = eventually(lambda: apart.peer.peek(FAILED), PATIENCE, "a letter")
        assert [json.loads(letter.body)["task_id"] for letter in letters] == [bad]
        assert apart.runs.started[bad] == 1

        slow = [apart.peer.enqueue("interop.count", apart.runs.path, n, 0.5) for n in range(12)]
        by_python = [
            eventually(lambda: apart.peer.consume_one(lambda *args: args[1], 3), PATIENCE)
            for _ in range(2)
        ]
        assert [apart.peer.wait(one)["result"] for one in slow] == list(range(12))
        eventually(lambda: apart.peer.depth(MODELS) == 0, PATIENCE, "an empty queue")
    by_go = set(apart.runs.ended)
    assert set(by_python) | by_go == set(slow)
    assert not set(by_python) & by_go
