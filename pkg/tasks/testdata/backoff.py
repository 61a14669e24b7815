"""Writes backoff.json: what Celery's autoretry waits, see TestBackoffIsCelerys.

    python backoff.py > backoff.json
"""

import json
import random

import celery
from celery.utils.time import get_exponential_backoff_interval

ranges = []
random.randrange = lambda n: ranges.append(n) or n - 1

cases = []
for backoff in (1, 2, 3, 7, 60, 600, 601, 100_000):
    for maximum in (0, 1, 5, 600, 3600, 86_400, 10**9):
        for retries in (0, 1, 2, 3, 5, 8, 13, 31, 62, 63, 64, 100, 1000):
            arguments = {"factor": int(max(1.0, float(backoff))), "retries": retries, "maximum": maximum}
            wait = get_exponential_backoff_interval(**arguments)
            get_exponential_backoff_interval(**arguments, full_jitter=True)
            cases.append([backoff, maximum, retries, wait, ranges[-1]])
print(json.dumps({"celery": celery.__version__, "backoff_max_retries_wait_range": cases}, separators=(",", ":")))
