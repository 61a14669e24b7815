"""What callers do while a task waits or runs: cancel it, watch its progress."""

from __future__ import annotations

from harness import eventually
from rayserve_peer import PATIENCE
from rayserve_stack import Apart, RayServe


def test_progress(rayserve: RayServe):
    with rayserve.peer.progress() as events:
        task_id = rayserve.peer.enqueue("interop.progress", steps=3)
        assert rayserve.peer.wait(task_id)["result"] == 3
        eventually(lambda: len(events) == 3, PATIENCE, "three events")
    bodies = [body for body, _ in events]
    assert [body["task_id"] for body in bodies] == [task_id] * 3
    assert [body["detail"] for body in bodies] == ["step 1", "step 2", "step 3"]
    assert [round(body["pct"], 3) for body in bodies] == [33.333, 66.667, 100]
    assert list(bodies[0]) == ["task_id", "pct", "detail"]
    tags = [{key: tags[key] for key in ("task_id", "pct")} for _, tags in events]
    assert tags == [{"task_id": task_id, "pct": pct} for pct in ("33", "66", "100")]


def test_cancelled_before_it_runs(apart: Apart):
    task_id = apart.peer.enqueue("interop.count", apart.runs.path, 1)
    apart.peer.cancel(task_id)
    behind = apart.peer.enqueue("interop.count", apart.runs.path, 2)
    with apart.worker.running():
        assert apart.peer.wait(behind)["result"] == 2
        eventually(lambda: apart.peer.depth(apart.peer.queue) == 0, PATIENCE, "an empty queue")
    assert apart.peer.status(task_id) == "CANCELLED"
    assert apart.runs.started == {behind: 1}


def test_cancelled_while_it_runs(rayserve: RayServe):
    task_id = rayserve.peer.enqueue("interop.until_cancelled", rayserve.runs.path)
    eventually(lambda: rayserve.runs.started[task_id] == 1, PATIENCE, "a task that runs")
    rayserve.peer.cancel(task_id)
    eventually(lambda: rayserve.runs.cancelled[task_id] == 1, PATIENCE, "a task that is cancelled")
    eventually(lambda: rayserve.metrics()["in_flight"] == 0, PATIENCE, "no handler that runs")
    # Its error is not stored over what the caller wrote, and it doesn't come again.
    assert rayserve.peer.wait(rayserve.peer.enqueue("interop.add", 1, 2))["result"] == 3
    assert rayserve.peer.status(task_id) == "CANCELLED"
    assert rayserve.runs.started[task_id] == 1
    assert rayserve.on_dlq(task_id) == []
