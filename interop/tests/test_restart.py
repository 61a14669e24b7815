"""Workers and brokers that stop while there is work."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from celery.result import AsyncResult, ResultSet
from conftest import MakeStack
from harness import Runs, Service, binary, eventually, free_port
from stack import BROKER_READY, QUEUE, SOON, WORKER_READY, broker_settings

from app import make_app

pytestmark = pytest.mark.core

TIMEOUT = 90


# How long a task takes in seconds: with 8 slots the 500 need three seconds, so
# that there is time to stop the worker in the middle.
TASK = 0.05


def publish(app: Celery, name: str, runs: Runs, tasks: int) -> list[AsyncResult]:
    """Publish tasks that return 0, 1, 2, …."""
    return [app.send_task(name, [runs.path, i, TASK]) for i in range(tasks)]


def test_warm_shutdown_in_the_middle(make_stack: MakeStack, runs: Runs):
    stack = make_stack(queues=["elsewhere"])
    results = publish(stack.app, "interop.count", runs, 500)
    stack.worker.restart(queues=[QUEUE])
    eventually(lambda: len(runs.ended) >= 100, what="100 tasks")
    stack.worker.stop()
    assert len(runs.ended) < 500, "the worker was stopped too late for this test"
    # It waited for what ran, and started nothing more.
    assert runs.started == runs.ended

    stack.worker.start()
    assert ResultSet(results, app=stack.app).get(timeout=TIMEOUT) == list(range(500))
    # Nothing was handed back while it ran, so nothing ran twice.
    assert runs.started == runs.ended == {result.id: 1 for result in results}


def test_cold_shutdown_hands_back_what_runs(make_stack: MakeStack, runs: Runs):
    stack = make_stack()
    running = [stack.app.send_task("interop.count_late", [runs.path, i, 5]) for i in range(8)]
    waiting = [stack.app.send_task("interop.count_late", [runs.path, i]) for i in range(8, 16)]
    eventually(lambda: len(runs.started) == 8, what="8 running tasks")
    stack.worker.program.send(signal.SIGTERM)
    stack.worker.program.wait_for_log("Warm shutdown")
    stack.worker.program.send(signal.SIGQUIT)
    assert stack.worker.wait() == 1
    assert not runs.ended

    # Room for all, so that nobody waits for those that start over.
    stack.worker.configure(worker_concurrency=16)
    stack.worker.start()
    assert ResultSet(waiting, app=stack.app).get(timeout=TIMEOUT) == list(range(8, 16))
    eventually(lambda: len(runs.started) == 16, what="the tasks that were handed back")
    assert all(runs.started[result.id] == 2 for result in running)
    assert all(runs.started[result.id] == 1 for result in waiting)
    # They were given back whole: they run to their end, with their results.
    assert ResultSet(running, app=stack.app).get(timeout=TIMEOUT) == list(range(8))


def test_killed_worker_loses_nothing_that_is_acked_late(make_stack: MakeStack, runs: Runs):
    stack = make_stack(queues=["elsewhere"])
    results = publish(stack.app, "interop.count_late", runs, 300)
    stack.worker.restart(queues=[QUEUE])
    eventually(lambda: len(runs.ended) >= 50, what="50 tasks")
    stack.worker.kill()
    assert len(runs.ended) < 300, "the worker was killed too late for this test"

    stack.worker.start()
    assert ResultSet(results, app=stack.app).get(timeout=TIMEOUT) == list(range(300))
    assert set(runs.ended) == {result.id for result in results}
    # Those whose acks were on the way: no more than there are slots.
    assert sum(count - 1 for count in runs.started.values()) <= 8


class TwoPrograms:
    """A broker that runs alone and a worker that connects to it."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        self.app = make_app(f"lovage://127.0.0.1:{port}")
        self.broker = Service(
            [binary("LOVAGE_BIN"), "broker"],
            directory / "broker",
            {"embedded_broker": broker_settings(directory, port)},
            BROKER_READY,
        )
        self.worker = Service(
            [binary("LOVAGE_WORKER_BIN")],
            directory / "worker",
            {
                "broker_url": f"kubemq://127.0.0.1:{port}",
                "result_backend": f"kubemq://127.0.0.1:{port}",
                "worker_concurrency": 8,
                "result_backend_always_retry": True,
            },
            WORKER_READY,
        )


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoPrograms]:
    programs = TwoPrograms(tmp_path)
    with programs.broker.running():
        yield programs
    programs.app.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_broker_restarts_while_tasks_are_queued(two: TwoPrograms, runs: Runs, end: str):
    results = publish(two.app, "interop.count_late", runs, 300)
    delayed = two.app.send_task("interop.count_late", [runs.path, 300], countdown=4)
    with two.worker.running():
        eventually(lambda: len(runs.ended) >= 50, what="50 tasks")
        getattr(two.broker, end)()
        assert len(runs.ended) < 300, "the broker was ended too late for this test"
        two.broker.start()
        # Published by a client that has to connect again first.
        results += [two.app.send_task("interop.count_late", [runs.path, 301])]

        assert ResultSet(results, app=two.app).get(timeout=TIMEOUT) == [*range(300), 301]
        assert delayed.get(timeout=SOON) == 300
    assert set(runs.ended) == {result.id for result in [*results, delayed]}


def test_worker_starts_before_the_broker(tmp_path: Path):
    programs = TwoPrograms(tmp_path)
    worker = programs.worker.launch()
    worker.wait_for_log("Cannot connect to .* Trying again")
    with programs.broker.running():
        try:
            worker.wait_for_log(WORKER_READY)
            assert programs.app.tasks["interop.add"].delay(1, 2).get(timeout=SOON) == 3
        finally:
            programs.worker.stop()
            programs.app.close()


def test_broker_stands_still_while_tasks_are_queued(two: TwoPrograms, runs: Runs):
    """A stopped process is a peer that vanished: its machine goes on taking what is sent."""
    results = publish(two.app, "interop.count_late", runs, 300)
    with two.worker.running():
        worker = two.worker.program
        eventually(lambda: len(runs.ended) >= 50, what="50 tasks")
        two.broker.program.send(signal.SIGSTOP)
        try:
            worker.wait_for_log("Connection to broker lost")
        finally:
            two.broker.program.send(signal.SIGCONT)
        assert len(runs.ended) < 300, "the broker stood still too late for this test"
        worker.wait_for_log("Connected to .* after")
        assert ResultSet(results, app=two.app).get(timeout=TIMEOUT) == list(range(300))
        # One line for each change, however many attempts there were.
        assert worker.log.count("Connection to broker lost") == 1
        assert worker.log.count("Connected to") == 1
        assert "Trying again" not in worker.log
    assert set(runs.ended) == {result.id for result in results}
    # Those that were running: no more than there are slots.
    assert sum(count - 1 for count in runs.started.values()) <= 8


@pytest.mark.parametrize(
    "settings", [{"broker_connection_retry": False}, {"broker_connection_max_retries": 3}]
)
def test_worker_that_may_not_reconnect_stops(tmp_path: Path, settings: dict[str, bool | int]):
    programs = TwoPrograms(tmp_path)
    programs.worker.configure(**settings, broker_connection_retry_on_startup=True)
    with programs.broker.running():
        programs.worker.start()
    assert programs.worker.wait() == 1
    programs.worker.program.wait_for_log("the attempts are used up")
    programs.app.close()
