"""Countdown, ETA and expiry."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError
from conftest import MakeStack
from harness import Runs, eventually
from stack import QUEUE, SOON

pytestmark = pytest.mark.core

# How late a task may start. Never early is exact.
LATE = 1.0


def assert_on_time(ran_at: float, due: float) -> None:
    """The Go handler reports when it ran; both sides read the same clock."""
    assert due <= ran_at < due + LATE, f"{ran_at - due:+.3f} s"


@pytest.mark.parametrize("countdown", [0.3, 1, 2.5])
def test_countdown(app: Celery, countdown: float):
    before = time.time()
    result = app.send_task("interop.now", countdown=countdown)
    after = time.time()
    ran_at = result.get(timeout=SOON)
    assert before + countdown <= ran_at < after + countdown + LATE


@pytest.mark.parametrize("hours", [0, 5.5, -8])
def test_eta_in_any_zone(app: Celery, hours: float):
    eta = datetime.now(timezone(timedelta(hours=hours))) + timedelta(seconds=1.4)
    ran_at = app.send_task("interop.now", eta=eta).get(timeout=SOON)
    assert_on_time(ran_at, eta.timestamp())


def test_eta_in_the_past(app: Celery):
    eta = datetime.now(timezone.utc) - timedelta(hours=1)
    assert_on_time(app.send_task("interop.now", eta=eta).get(timeout=SOON), time.time() - LATE)


def test_many_etas(app: Celery):
    etas = [datetime.now(timezone.utc) + timedelta(seconds=1 + i / 20) for i in range(40)]
    results = [(eta, app.send_task("interop.now", eta=eta)) for eta in etas]
    for eta, result in results:
        assert_on_time(result.get(timeout=SOON), eta.timestamp())


@pytest.fixture
def short_delays(make_stack: MakeStack) -> Celery:
    """A broker that keeps a message for two seconds at most."""
    return make_stack(
        embedded_broker={"max_delay": 2}, broker_transport_options={"max_delay": 2}
    ).app


def test_eta_beyond_the_longest_delay(short_delays: Celery, runs: Runs):
    eta = datetime.now(timezone.utc) + timedelta(seconds=5.5)
    clock = short_delays.send_task("interop.now", eta=eta)
    counted = short_delays.send_task("interop.count", [runs.path, 7], eta=eta)
    assert_on_time(clock.get(timeout=SOON), eta.timestamp())
    assert counted.get(timeout=SOON) == 7
    assert runs.started == {counted.id: 1}


def test_retry_beyond_the_longest_delay(short_delays: Celery):
    before = time.monotonic()
    result = short_delays.send_task("interop.retry_then_succeed", [1, 3.5])
    assert result.get(timeout=SOON) == 1
    assert time.monotonic() - before >= 3.5


def test_runs_before_it_expires(app: Celery):
    assert app.send_task("interop.add", [1, 2], expires=60).get(timeout=SOON) == 3


def assert_revoked(result: Any) -> None:
    with pytest.raises(TaskRevokedError, match="expired"):
        result.get(timeout=SOON)
    assert result.state == "REVOKED"


def test_expired_when_it_arrives(app: Celery):
    long_ago = datetime.now(timezone.utc) - timedelta(minutes=1)
    assert_revoked(app.send_task("interop.add", [1, 2], expires=long_ago))


def test_expires_before_its_countdown_is_over(app: Celery):
    assert_revoked(app.send_task("interop.add", [1, 2], countdown=2, expires=1))


def test_expires_while_no_worker_runs(make_stack: MakeStack, runs: Runs):
    # The worker is up for its broker only: it doesn't consume the queue.
    stack = make_stack(queues=["elsewhere"])
    expired = stack.app.send_task("interop.count", [runs.path, 1], expires=1)
    lasting = stack.app.send_task("interop.count", [runs.path, 2], expires=3600)
    expires_at = time.time() + 1
    eventually(lambda: time.time() > expires_at + 0.1)

    stack.worker.restart(queues=[QUEUE])
    assert lasting.get(timeout=SOON) == 2
    assert runs.started == {lasting.id: 1}
    assert expired.state in ("PENDING", "REVOKED")
