"""The Celery application that the benchmark measures, on Redis."""

from __future__ import annotations

import os

from celery import Celery

URL = os.environ["BENCH_REDIS_URL"]

app = Celery("bench", broker=URL)
app.conf.update(
    result_backend=URL if os.environ.get("BENCH_RESULTS") == "1" else None,
    # Else gevent's greenlets make a connection to Redis for each task.
    result_backend_thread_safe=True,
    task_default_queue="bench",
    worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "4")),
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench.noop")
def noop(pad: str = "") -> None:
    """Do nothing with a payload."""
