"""A client that calls a task at a steady rate and waits for each result.

``python -m client RATE COUNT WARM-UP`` prints the latencies in nanoseconds as one
line of JSON. One counts from when its call was due, also where an earlier one was
in the way.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import lovage_kombu  # noqa: F401  # registers the scheme
from peer import noop

THREADS = 16
POLL_SECONDS = 0.005


def call(due: float) -> int:
    """Publish, wait for the result, and return the nanoseconds since it was due."""
    noop.delay().get(timeout=60, interval=POLL_SECONDS)
    return int((time.monotonic() - due) * 1e9)


def main(rate: float, count: int, warm_up: int) -> None:
    """Call warm_up tasks one after the other, then the rest on schedule."""
    for _ in range(warm_up):
        call(0)
    begin = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        calls = []
        for i in range(count - warm_up):
            due = begin + i / rate
            time.sleep(max(0.0, due - time.monotonic()))
            calls.append(pool.submit(call, due))
        latencies = [one.result() for one in calls]
    print(json.dumps(latencies), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
