"""Chains, groups and callbacks whose tasks run in Go, in Python, or in both."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.canvas import Signature
from conftest import MakeStack
from harness import Runs, eventually
from stack import OTHER_QUEUE, QUEUE, SOON

pytestmark = pytest.mark.core


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Return the file to which errbacks add a line."""
    return tmp_path / "notes"


@pytest.fixture
def s(app: Celery):
    """Return a function that makes a signature of a task by its name."""

    def make(name: str, *args: Any, **options: Any) -> Signature:
        return app.signature(name, args=args, options=options)

    return make


def test_chain(s):
    result = chain(
        s("interop.add", 1, 2), s("interop.add", 3), s("interop.add", 4)
    ).apply_async()
    assert result.get(timeout=SOON) == 10
    assert result.parent.get(timeout=SOON) == 6
    assert result.parent.parent.get(timeout=SOON) == 3


def test_lineage(s):
    result = chain(s("interop.add", 1, 2), s("interop.add", 3), s("interop.lineage")).apply_async()
    where = result.get(timeout=SOON)
    assert where["id"] == result.id
    assert where["parent_id"] == result.parent.id
    assert where["root_id"] == result.parent.parent.id
    assert where["args"] == [6]


def test_immutable_step(s):
    alone = s("interop.add", 5, 6)
    alone.immutable = True
    assert chain(s("interop.add", 1, 2), alone).apply_async().get(timeout=SOON) == 11


@pytest.mark.usefixtures("python_worker")
def test_chain_through_both_workers(s):
    result = chain(
        s("interop.add", 1, 2),
        s("python.add", 10, queue="python"),
        s("interop.add", 100, queue=OTHER_QUEUE),
        s("python.add", 1000, queue="python"),
    ).apply_async()
    assert result.get(timeout=SOON) == 1113


def test_group(app: Celery, s):
    result = group([s("interop.add", i, i) for i in range(10)], app=app).apply_async()
    assert result.get(timeout=SOON) == [2 * i for i in range(10)]
    assert result.successful()


def test_saved_group(app: Celery, s):
    result = group([s("interop.add", i, i) for i in range(3)], app=app).apply_async()
    result.save()
    assert app.GroupResult.restore(result.id).get(timeout=SOON) == [0, 2, 4]


def test_chain_that_ends_in_a_group(app: Celery, s):
    last = group([s("interop.add", 10), s("interop.add", 20), s("interop.lineage")], app=app)
    result = chain(s("interop.add", 1, 1), last).apply_async()
    eleven, twenty_one, where = result.get(timeout=SOON)
    assert (eleven, twenty_one) == (12, 22)
    assert where["group_id"] == result.id


def test_group_of_chains(app: Celery, s):
    chains = [chain(s("interop.add", i, 1), s("interop.add", 10)) for i in range(4)]
    assert group(chains, app=app).apply_async().get(timeout=SOON) == [11, 12, 13, 14]


def test_one_callback(s, app: Celery):
    callback = s("interop.add", 10, task_id=str(uuid.uuid4()))
    result = app.send_task("interop.add", (1, 2), link=callback)
    assert app.AsyncResult(callback.id).get(timeout=SOON) == 13
    assert [child.id for child in result.children] == [callback.id]


def test_several_callbacks(s, app: Celery):
    alone = s("interop.add", 1, 1)
    alone.immutable = True
    callbacks = [
        s("interop.add", 10),
        alone,
        chain(s("interop.add", 100), s("interop.add", 1000)),
        group([s("interop.add", 5), s("interop.add", 6)], app=app),
    ]
    result = app.send_task("interop.add", (1, 2), link=callbacks)
    assert result.get(timeout=SOON) == 3
    of_group, of_others = result.children
    assert of_group.get(timeout=SOON) == [8, 9]
    assert of_others.get(timeout=SOON) == [13, 2, 1103]


def test_children_are_a_graph(s):
    result = chain(s("interop.add", 1, 2), s("interop.add", 3)).apply_async()
    result.get(timeout=SOON)
    first = result.parent
    assert [child.id for child in first.children] == [result.id]
    assert list(first.collect()) == [(first, 3), (result, 6)]
    assert {node.id for node in first.graph} == {first.id, result.id}


def test_retried_step_continues_once(s, runs: Runs):
    last = s("interop.add_after", 10, 0, runs.path)
    result = chain(s("interop.add_after", 1, 2, 3, runs.path), last).apply_async()
    assert result.get(timeout=SOON) == 13
    assert runs.started == {result.parent.id: 4, result.id: 1}
    assert runs.ended == {result.parent.id: 1, result.id: 1}


def test_chain_survives_a_killed_worker(make_stack: MakeStack, runs: Runs):
    stack = make_stack()
    slow = stack.app.signature("interop.count_late", (runs.path, 7, 1), immutable=True)
    last = stack.app.signature("interop.add_after", (10, 0, runs.path))
    first = stack.app.signature("interop.add", (1, 2))
    result = chain(first, slow, last).apply_async()
    eventually(lambda: runs.started, what="the second step")
    stack.worker.kill()
    stack.worker.start()
    assert result.get(timeout=SOON) == 17
    assert runs.started == {result.parent.id: 2, result.id: 1}


def test_failed_step_fails_the_rest(s, app: Celery):
    result = chain(
        s("interop.fail_value_error", "boom"), s("interop.add", 1), s("interop.add", 2)
    ).apply_async()
    # By their ids alone: the parents of the client's own results would tell it too.
    for waiting in (result.id, result.parent.id, result.parent.parent.id):
        with pytest.raises(ValueError, match="^boom$"):
            app.AsyncResult(waiting).get(timeout=SOON)


def test_go_errback(s, app: Celery, notes: Path):
    result = app.send_task(
        "interop.fail_value_error", ("boom",), link_error=s("interop.errback", str(notes))
    )
    eventually(lambda: notes.exists() and notes.read_text(), what="the errback")
    assert notes.read_text().split()[:2] == ["go", result.id]


@pytest.mark.usefixtures("python_worker")
def test_python_errback(s, app: Celery, notes: Path):
    result = app.send_task(
        "interop.fail_value_error",
        ("boom",),
        link_error=s("python.errback", str(notes), queue="python"),
    )
    eventually(lambda: notes.exists() and notes.read_text(), what="the errback")
    assert notes.read_text().split() == ["python", result.id]


@pytest.mark.usefixtures("python_worker")
def test_errbacks_of_a_chain(s, notes: Path):
    result = chain(
        s("interop.add", 1, 2), s("interop.fail_value_error"), s("interop.add", 1)
    ).apply_async(
        link_error=[
            s("interop.errback", str(notes), queue=OTHER_QUEUE),
            s("python.errback", str(notes), queue="python"),
        ]
    )
    lines = eventually(
        lambda: notes.exists() and sorted(notes.read_text().splitlines())[1:], what="both errbacks"
    )
    assert lines[0].split() == ["python", result.parent.id]


@pytest.mark.usefixtures("python_worker")
def test_callback_of_a_python_task(s, app: Celery):
    callback = s("interop.add", 10, task_id=str(uuid.uuid4()), queue=QUEUE)
    app.send_task("python.add", (1, 2), queue="python", link=callback)
    assert app.AsyncResult(callback.id).get(timeout=SOON) == 13


def test_options_of_a_step(s):
    step = s("interop.request", priority=4, queue=OTHER_QUEUE)
    step.immutable = True
    request = chain(s("interop.add", 1, 2), step).apply_async().get(timeout=SOON)
    assert (request["priority"], request["queue"]) == (4, OTHER_QUEUE)


def test_routes_of_the_worker(make_stack: MakeStack):
    stack = make_stack(queues=[QUEUE, OTHER_QUEUE], task_routes={"interop.lin*": OTHER_QUEUE})
    steps = [stack.app.signature("interop.add", (1, 2)), stack.app.signature("interop.lineage")]
    assert chain(*steps).apply_async().get(timeout=SOON)["queue"] == OTHER_QUEUE


@pytest.mark.usefixtures("python_worker")
def test_chord_of_go_tasks_joined_by_python(app: Celery, s):
    header = [s("interop.add", i, i) for i in range(5)]
    header.append(chain(s("interop.add", 1, 1), s("interop.add", 98)))
    result = chord(header, app=app)(s("python.sum", queue="python"))
    assert result.get(timeout=SOON) == 120


@pytest.mark.usefixtures("python_worker")
def test_chord_of_a_go_task_that_fails(app: Celery, s):
    header = [s("interop.add", 1, 1), s("interop.fail_value_error", "boom")]
    result = chord(header, app=app)(s("python.sum", queue="python"))
    with pytest.raises(Exception, match="boom"):
        app.AsyncResult(result.id).get(timeout=SOON)


def test_chord_that_nobody_joins(app: Celery, s):
    result = chord([s("interop.add", 1, 1), s("interop.add", 2, 2)], app=app)(s("interop.echo"))
    with pytest.raises(Exception, match="celery.chord_unlock is not registered"):
        app.AsyncResult(result.id).get(timeout=SOON)


def test_chord_as_a_step_is_refused(app: Celery, s):
    header = group([s("interop.add", 10), s("interop.add", 20)], app=app)
    result = chain(s("interop.add", 1, 1), header, s("interop.echo")).apply_async()
    with pytest.raises(NotImplementedError, match="a chord"):
        app.AsyncResult(result.id).get(timeout=SOON)
