"""Results of a Ray Serve queue that can't be stored as they are, or not at once."""

from __future__ import annotations

from harness import eventually
from rayserve_peer import PATIENCE
from rayserve_stack import Apart, RayServe

LIMIT = 4_194_304


def test_oversized_result(rayserve: RayServe):
    record = rayserve.peer.wait(rayserve.peer.enqueue("interop.big", LIMIT))
    assert (record["status"], record["result"]) == ("SUCCESS", None)
    assert str(LIMIT) in record["error"]


def test_largest_result_is_what_the_sdk_receives(rayserve: RayServe):
    """The limit is that of the SDK's clients, too, for the answer with all that is in it."""
    whole = rayserve.peer.wait(rayserve.peer.enqueue("interop.big", LIMIT - 1024))
    assert len(whole["result"]) == LIMIT - 1024
    assert "error" not in whole
    for size in range(LIMIT - 900, LIMIT, 100):
        record = rayserve.peer.wait(rayserve.peer.enqueue("interop.big", size))
        assert record["status"] == "SUCCESS"
        assert (record["result"] is None) == ("error" in record)


def test_result_that_json_cannot_hold(rayserve: RayServe):
    task_id = rayserve.peer.enqueue("interop.unencodable")
    record = rayserve.peer.wait(task_id)
    assert (record["status"], record["result"]) == ("FAILURE", None)
    assert record["error"]


def test_result_that_could_not_be_stored_appears_later(apart: Apart):
    """The broker is away when the task ends, for longer than three attempts take."""
    with apart.worker.running():
        task_id = apart.peer.enqueue("interop.count", apart.runs.path, 17, 1)
        eventually(lambda: apart.runs.started[task_id] == 1, PATIENCE, "a task that runs")
        apart.broker.stop()
        eventually(lambda: apart.runs.ended[task_id] == 1, PATIENCE, "a task that has ended")
        apart.worker.program.wait_for_log("is kept in memory", PATIENCE)
        apart.broker.start()
        apart.peer.reconnect()

        assert apart.peer.wait(task_id)["result"] == 17
        # The message had not been acked; it comes again, and is known.
        eventually(lambda: apart.peer.depth(apart.peer.queue) == 0, PATIENCE, "an empty queue")
        assert apart.metrics()["result_storage_retries_total"] >= 3
    assert apart.runs.started == apart.runs.ended == {task_id: 1}
