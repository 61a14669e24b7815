"""A Celery worker and the Go worker on one broker.

It shows that the Python side of these tests is a full peer: what it can write it
can read too.
"""

from __future__ import annotations

import pytest
from celery import Celery
from stack import SOON


@pytest.mark.usefixtures("python_worker")
def test_python_task(app: Celery):
    assert app.tasks["python.add"].apply_async((2, 3), queue="python").get(timeout=SOON) == 5


@pytest.mark.usefixtures("python_worker")
def test_python_failure(app: Celery):
    with pytest.raises(ValueError, match="^boom$"):
        app.tasks["python.fail"].apply_async(("boom",), queue="python").get(timeout=SOON)


@pytest.mark.usefixtures("python_worker")
def test_python_countdown(app: Celery):
    result = app.tasks["python.add"].apply_async((4, 5), queue="python", countdown=1)
    assert result.get(timeout=SOON) == 9


@pytest.mark.usefixtures("python_worker")
def test_both_workers(app: Celery):
    from_python = app.tasks["python.add"].apply_async((1, 1), queue="python")
    from_go = app.tasks["interop.add"].delay(2, 2)
    assert (from_python.get(timeout=SOON), from_go.get(timeout=SOON)) == (2, 4)
