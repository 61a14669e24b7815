"""The acknowledgement table as a Python observer sees it, end to end.

Each cell publishes one task with real Celery and looks at what it left: the state
and the result, how often the handler ran, and what is in the queue and in the
dead-letter queue. Once against the embedded broker, once against one with every
quirk of the KubeMQ server of 2023.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from celery import Celery
from celery.result import AsyncResult
from harness import Program, Runs, Service, binary, eventually, free_port
from stack import BROKER_READY, QUEUE, SOON, WORKER_READY, broker_settings

from app import make_app
from lovage_kombu.broker import Broker

LETTERS = "letters"


class Seen(NamedTuple):
    """What a cell of the table leaves behind."""

    state: str
    # The class of the stored exception, or the value of the result.
    result: str | int | None
    runs: int
    # The reason beside the message in the dead-letter queue, None for no letter.
    letter: str | None = None


OK = Seen("SUCCESS", 1, runs=1)
AGAIN = Seen("SUCCESS", 2, runs=2)
IGNORED = Seen("PENDING", None, runs=1)
EXPIRED = Seen("REVOKED", "TaskRevokedError", runs=0)


def failed(exception: str, letter: str | None = None) -> Seen:
    return Seen("FAILURE", exception, runs=1, letter=letter)


def expected(how: str, late: bool, on_failure: bool, on_lost: bool) -> Seen:
    """Return Celery's table, with the rows that differ on purpose as Lovage has them."""
    letter = "rejected" if late and not on_failure else None
    return {
        "success": OK,
        "failure": failed("ValueError", letter),
        "encode failure": failed("EncodeError", letter),
        "retry": AGAIN,
        "ignore": IGNORED,
        # Celery has acked an early message, and loses it, whether it wants it back or not.
        "reject": failed("Reject", "rejected"),
        "reject requeue": AGAIN,
        "worker lost": AGAIN if late and on_lost else failed("WorkerLostError", letter and "worker-lost"),
        "expired": EXPIRED,
    }[how]


HOWS = [
    "success",
    "failure",
    "encode failure",
    "retry",
    "ignore",
    "reject",
    "reject requeue",
    "worker lost",
    "expired",
]
POLICIES = [
    (late, on_failure, on_lost)
    for late in (False, True)
    for on_failure in (False, True)
    for on_lost in (False, True)
]


def task_name(late: bool, on_failure: bool, on_lost: bool) -> str:
    when, failure = "late" if late else "early", "acked" if on_failure else "rejected"
    return f"interop.ack.{when}.{failure}{'.requeued' if on_lost else ''}"


class Table:
    """A worker and a broker on which every cell of the table was published."""

    def __init__(self, directory: Path, port: int) -> None:
        self.app: Celery = make_app(f"lovage://127.0.0.1:{port}")
        self.broker = Broker("127.0.0.1", port)
        self.runs = Runs(directory / "runs")
        self.worker = Service(
            [binary("LOVAGE_WORKER_BIN")],
            directory / "worker",
            {
                "broker_url": f"kubemq://127.0.0.1:{port}",
                "result_backend": f"kubemq://127.0.0.1:{port}",
                "worker_concurrency": 8,
                "dead_letter_queue": LETTERS,
            },
            WORKER_READY,
        )
        self.cells: dict[tuple[str, bool, bool, bool], AsyncResult] = {}

    def publish(self) -> None:
        """Publish every cell, then a task that is done after all of them."""
        for how in HOWS:
            for policy in POLICIES:
                options = {"expires": -5} if how == "expired" else {}
                self.cells[how, *policy] = self.app.send_task(
                    task_name(*policy), [self.runs.path, how], **options
                )

    def settled(self, cell: tuple[str, bool, bool, bool]) -> AsyncResult:
        """Return the result of a cell whose task has ended."""
        result, want = self.cells[cell], expected(*cell)
        eventually(
            lambda: self.runs.started[result.id] >= want.runs,
            timeout=SOON,
            what=f"{want.runs} runs of {cell}",
        )
        if want.state != "PENDING":  # looking for what isn't there takes a second
            eventually(lambda: result.state == want.state, SOON, f"{want} of {cell}")
        return result

    def letters(self) -> dict[str, str]:
        """Return the reasons of the dead letters by task id."""
        found = self.broker.peek_messages(LETTERS, 1024)
        return {letter.tags["lovage-id"]: letter.tags["lovage-reason"] for letter in found}


@pytest.fixture(scope="module", params=["clean", "quirks of 2023"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    directory = tmp_path_factory.mktemp("acks")
    port = free_port()
    if request.param == "clean":
        service = Service(
            [binary("LOVAGE_BIN"), "broker"],
            directory / "broker",
            {"embedded_broker": broker_settings(directory, port)},
            BROKER_READY,
        )
        service.start()
        stop = service.stop
    else:
        data = directory / "data"
        program = Program(
            [binary("LOVAGE_QUIRKBROKER_BIN"), f"-listen=127.0.0.1:{port}", f"-data={data}"], directory
        )
        program.wait_for_log(BROKER_READY)
        stop = program.stop
    try:
        made = Table(directory, port)
        with made.worker.running():
            made.publish()
            yield made
        made.broker.close()
        made.app.close()
    finally:
        stop()


@pytest.mark.parametrize("how", HOWS)
def test_cells(table: Table, how: str):
    for policy in POLICIES:
        cell = (how, *policy)
        want = expected(*cell)
        result = table.settled(cell)
        meta = result._get_task_meta()
        value = meta["result"]
        if want.state in ("FAILURE", "REVOKED"):
            value = type(value).__name__
        seen = Seen(meta["status"], value, table.runs.started[result.id], want.letter)
        assert (cell, seen) == (cell, want)


def test_what_is_left(table: Table):
    """The work queue is empty, and the dead-letter queue holds what it should."""
    for cell in table.cells:
        table.settled(cell)
    want = {
        table.cells[cell].id: letter
        for cell in table.cells
        if (letter := expected(*cell).letter) is not None
    }
    assert len(want) == 13
    eventually(lambda: len(table.letters()) >= len(want), timeout=SOON, what="dead letters")
    assert table.letters() == want
    eventually(lambda: table.broker.peek(QUEUE) is None, what="an empty queue")
