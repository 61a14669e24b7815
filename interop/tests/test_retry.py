"""Retries, as the caller and another worker see them."""

from __future__ import annotations

import time

import pytest
from celery import Celery
from harness import eventually
from stack import OTHER_QUEUE, SOON

# The queue of the Celery worker.
HAND_OVER = "python"


@pytest.mark.core
def test_auto_retry(app: Celery):
    assert app.send_task("interop.auto_retry", [3]).get(timeout=SOON) == 3


@pytest.mark.core
def test_auto_retry_waits_longer_each_time(app: Celery):
    before = time.monotonic()
    result = app.send_task("interop.auto_retry_backoff", [2])
    assert result.get(timeout=SOON) == 2
    assert time.monotonic() - before >= 1 + 2


@pytest.mark.core
def test_auto_retry_gives_up_with_the_error(app: Celery):
    result = app.send_task("interop.auto_retry", [100])
    with pytest.raises(ValueError, match="^not yet$"):
        result.get(timeout=SOON)
    assert "run 10: not yet" in result.traceback


@pytest.mark.core
def test_auto_retry_exempt(app: Celery):
    result = app.send_task("interop.auto_retry_exempt", [1])
    with pytest.raises(ValueError, match="^not yet$"):
        result.get(timeout=SOON)
    assert "run 0: not yet" in result.traceback


@pytest.mark.core
def test_auto_retry_keeps_ignore_result(app: Celery):
    result = app.send_task("interop.auto_retry", [1], ignore_result=True)
    assert app.send_task("interop.auto_retry", [2]).get(timeout=SOON) == 2
    assert app.AsyncResult(result.id).state == "PENDING"


@pytest.mark.core
def test_wrapped_exhaustion_is_the_cause(app: Celery):
    with pytest.raises(ValueError, match="^no more$"):
        app.send_task("interop.retry_unwilling", ["no more"]).get(timeout=SOON)


@pytest.mark.core
def test_retry_meta(app: Celery):
    result = app.send_task("interop.retry_then_succeed", [1], {"countdown": 3})
    eventually(lambda: result.state == "RETRY", what="state RETRY")
    assert isinstance(result.info, ValueError)
    assert result.info.args == ("not yet",)
    assert "ValueError: not yet" in result.traceback
    assert "celery.exceptions.Retry: Retry in 3s: ValueError('not yet')" in result.traceback
    assert result.date_done is None
    assert not result.ready()
    assert result.get(timeout=SOON) == 1


@pytest.mark.core
def test_retry_to_another_queue(app: Celery):
    described = app.send_task(
        "both.describe", [OTHER_QUEUE, 7], priority=2, headers={"x-kept": {"n": 1.0}}
    ).get(timeout=SOON)
    assert described["by"] == "go"
    assert described["queue"] == OTHER_QUEUE
    assert described["priority"] == 7
    assert described["headers"] == {"x-kept": {"n": 1.0}}


@pytest.mark.usefixtures("python_worker")
def test_python_runs_what_go_retries(app: Celery):
    signature = app.signature(
        "both.describe",
        (HAND_OVER, 5, {"x-new": 1}),
        shadow="shown",
        headers={"x-kept": [1.5, "é"], "baggage": "a=1"},
        time_limit=30,
        soft_time_limit=20,
        expires=600,
        priority=2,
    )
    signature.stamp(tenant="acme")
    described = signature.apply_async().get(timeout=SOON)
    assert described["by"] == "python"
    assert described["queue"] == HAND_OVER
    assert described["priority"] == 5
    assert described["retries"] == 1
    assert described["headers"]["x-kept"] == [1.5, "é"]
    assert described["headers"]["baggage"] == "a=1"
    assert described["headers"]["x-new"] == 1
    assert described["stamps"] == {"tenant": "acme"}
    assert described["shadow"] == "shown"
    assert described["origin"].startswith("gen")
    assert described["args"] == [HAND_OVER, 5, {"x-new": 1}]
    assert described["timelimit"] == [30, 20]
