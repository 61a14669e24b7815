"""A producer in the wire form of Ray Serve's KubeMQ adapter, with KubeMQ's SDK alone.

An application of yours has the adapter: enqueue_task_sync, get_task_status_sync,
query_task_sync. Needs kubemq==4.1.5; the worker must run:

    python examples/rayserve/producer.py localhost:50000
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from kubemq import ClientConfig, CQClient, QueryMessage, QueueMessage, QueuesClient

QUEUE = "inference"
RESULTS = "rayserve-result-"
PATIENCE = 60


def enqueue(queues: QueuesClient, name: str, *args: Any, **kwargs: Any) -> str:
    """Store PENDING, send a task and return its id."""
    task_id, now = str(uuid4()), datetime.now(timezone.utc).isoformat()
    pending = {
        "task_id": task_id,
        "status": "PENDING",
        "result": None,
        "created_at": now,
        "completed_at": now,
    }
    send(queues, channel=RESULTS + task_id, body=pending, expiration_in_seconds=3600)
    task = {
        "task_id": task_id,
        "task_name": name,
        "args": args,
        "kwargs": kwargs,
        "created_at": now,
    }
    send(
        queues,
        channel=QUEUE,
        body=task,
        max_receive_count=3,
        max_receive_queue=f"{QUEUE}.failed",
    )
    return task_id


def send(queues: QueuesClient, body: dict[str, Any], **fields: Any) -> None:
    """Send a JSON document."""
    sent = queues.send_queue_message(QueueMessage(body=json.dumps(body).encode(), **fields))
    if sent.is_error:
        raise ConnectionError(sent.error)


def wait(queues: QueuesClient, task_id: str) -> dict[str, Any]:
    """Return the record of a task that has ended."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = queues.peek_queue_messages(RESULTS + task_id, 1, 1)
        if found.messages:
            record = json.loads(found.messages[0].body)
            if record["status"] in ("SUCCESS", "FAILURE", "CANCELLED"):
                return record
        time.sleep(0.05)
    raise TimeoutError(f"task {task_id} has not ended in {PATIENCE} s")


def query(requests: CQClient, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Ask for a result at once."""
    body = json.dumps({"task_name": name, "args": args, "kwargs": kwargs}).encode()
    message = QueryMessage(channel=QUEUE, body=body, timeout_in_seconds=PATIENCE)
    return json.loads(requests.send_query(message).body)


def main() -> None:
    """Run against the broker whose address is the only argument."""
    address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50000"
    config = ClientConfig(address=address, client_id="producer")
    with QueuesClient(config=config) as queues, CQClient(config=config) as requests:
        good = enqueue(queues, "predict", "What a day! Wonderful!")
        bad = enqueue(queues, "predict", "")
        print("predict:", wait(queues, good)["result"])
        print("no text:", wait(queues, bad)["error"])
        print("at once:", query(requests, "predict", "it rains", threshold=0.1)["result"])


if __name__ == "__main__":
    main()
