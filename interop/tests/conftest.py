"""What the tests are handed: a Go worker with its embedded broker, and an app."""

from __future__ import annotations

import compat  # noqa: F401  # isort: skip  # it must come before Celery

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from harness import Program, Runs
from rayserve_stack import Apart, RayServe
from stack import MAPPED_QUEUE, OTHER_QUEUE, QUEUE, Stack

INTEROP = Path(__file__).resolve().parent.parent

MakeStack = Callable[..., Stack]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return the worker that all tests share which don't stop it."""
    settings = {"queues": [QUEUE, OTHER_QUEUE, MAPPED_QUEUE]}
    with Stack(tmp_path_factory.mktemp("shared"), **settings).running() as shared:
        yield shared


@pytest.fixture(scope="session")
def app(stack: Stack) -> Celery:
    """Return the Celery app that publishes to the shared worker."""
    return stack.app


@pytest.fixture(scope="session")
def python_worker(stack: Stack) -> Iterator[Program]:
    """Return a Celery worker that consumes the queue "python" of the shared broker."""
    command = [sys.executable, "-m", "celery", "-A", "app", "worker", "-P", "solo"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO"]
    program = Program(
        [*command, "-Q", "python", *quiet],
        INTEROP,
        LOVAGE_BROKER_URL=stack.url,
        PYTHONUNBUFFERED="1",
    )
    try:
        program.wait_for_log(r"celery@\S+ ready")
        yield program
    finally:
        program.stop()


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[MakeStack]:
    """Return a function that starts a worker of the test's own."""
    with ExitStack() as started:

        def make(name: str = "worker", **settings: Any) -> Stack:
            return started.enter_context(Stack(tmp_path / name, **settings).running())

        yield make


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Return the record of what the counting tasks did."""
    return Runs(tmp_path / "runs")


@pytest.fixture(scope="session")
def rayserve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayServe]:
    """Return the worker of a Ray Serve queue that tests share which don't stop it."""
    with RayServe(tmp_path_factory.mktemp("rayserve")).running() as shared:
        yield shared


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    """Return a broker that runs alone, and a worker of a Ray Serve queue not yet started."""
    programs = Apart(tmp_path)
    with programs.broker.running():
        yield programs
        programs.peer.close()
