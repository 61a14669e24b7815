"""What Python gets to see of a task that fails in Go."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from celery.exceptions import NotRegistered
from celery.result import AsyncResult
from stack import SOON

from app import PaymentDeclined

pytestmark = pytest.mark.core


def failure(app: Celery, name: str, *args: Any) -> tuple[BaseException, AsyncResult]:
    """Run a task that fails and return what the caller gets."""
    result = app.send_task(name, args)
    error = result.get(timeout=SOON, propagate=False)
    assert result.state == "FAILURE"
    assert isinstance(error, BaseException)
    return error, result


def test_builtin_exception(app: Celery):
    error, result = failure(app, "interop.fail_value_error", "boom: ü")
    assert type(error) is ValueError
    assert error.args == ("boom: ü",)
    assert result.traceback.startswith("Traceback (most recent call last):\n")
    assert result.traceback.rstrip().endswith("\nValueError: boom: ü")


def test_get_raises(app: Celery):
    with pytest.raises(ValueError, match="^boom$"):
        app.send_task("interop.fail_value_error", ["boom"]).get(timeout=SOON)


def test_exception_class_of_the_application(app: Celery):
    error, _ = failure(app, "interop.fail_python_class", 402, "no funds")
    assert type(error) is PaymentDeclined
    assert (error.code, error.reason) == (402, "no funds")


def test_go_error(app: Celery):
    # Python has no such class and makes one up under the Go type's name.
    error, result = failure(app, "interop.fail_go_error")
    assert type(error).__name__ == "QuotaError"
    assert str(error) == "quota of 3 exceeded"
    assert "QuotaError" in result.traceback


def test_wrapped_error(app: Celery):
    error, _ = failure(app, "interop.fail_wrapped", "no funds")
    assert type(error) is ValueError
    assert "no funds" in str(error)


def test_panic(app: Celery):
    error, result = failure(app, "interop.panic", "at the disco")
    assert type(error).__name__ == "PanicError"
    assert "at the disco" in str(error)
    # A panic has a place in the Go source, which an error has not.
    assert "failures.go" in result.traceback
    assert app.tasks["interop.add"].delay(1, 1).get(timeout=SOON) == 2


def test_unencodable_result(app: Celery):
    error, _ = failure(app, "interop.unencodable")
    assert type(error).__name__ == "EncodeError"
    assert "chan int" in str(error)


def test_unknown_task(app: Celery):
    error, _ = failure(app, "interop.nobody_knows_this", 1)
    assert type(error) is NotRegistered
    assert error.args == ("interop.nobody_knows_this",)
