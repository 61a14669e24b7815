"""Arguments travel from Python to Go and are bound as Python binds them."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from stack import SOON

pytestmark = pytest.mark.core


def call(app: Celery, name: str, *args: Any, **kwargs: Any) -> Any:
    return app.send_task(name, args, kwargs).get(timeout=SOON)


def test_positional(app: Celery):
    assert app.tasks["interop.add"].delay(2, 3).get(timeout=SOON) == 5


def test_keywords(app: Celery):
    assert app.tasks["interop.add"].delay(y=3, x=-10).get(timeout=SOON) == -7


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        (("Ada",), {}, "Hello, Ada! "),
        (("Ada", "Hi"), {}, "Hi, Ada! "),
        (("Ada",), {"times": 2}, "Hello, Ada! Hello, Ada! "),
        ((), {"name": "Ada", "greeting": "Ahoy"}, "Ahoy, Ada! "),
    ],
)
def test_defaults(app: Celery, args: tuple[Any, ...], kwargs: dict[str, Any], expected: str):
    assert app.tasks["interop.greet"].delay(*args, **kwargs).get(timeout=SOON) == expected


def test_star_args_and_kwargs(app: Celery):
    assert call(app, "interop.variadic", 1, 2, None, blue=True) == {
        "first": 1,
        "rest": [2, None],
        "others": {"blue": True},
    }


def test_no_arguments(app: Celery):
    assert call(app, "interop.noop") is None


@pytest.mark.parametrize(
    "text",
    [
        "Grüße",
        "日本語",
        "🦜 party",
        "e\u0301",
        "\u0000\u001f\u007f",
        "\u2028",
        "</script>",
        "\\u0041",
    ],
)
def test_unicode(app: Celery, text: str):
    assert call(app, "interop.echo", text, **{text: text}) == [[text], {text: text}]


def test_signature_with_immutable_arguments(app: Celery):
    assert app.tasks["interop.add"].si(40, 2).apply_async().get(timeout=SOON) == 42


def test_chosen_task_id(app: Celery):
    # KubeMQ allows neither character in the name of the result's queue.
    result = app.send_task("interop.request", task_id="order/17@shop")
    assert result.get(timeout=SOON)["id"] == "order/17@shop"


def test_what_the_handler_knows(app: Celery):
    result = app.send_task("interop.request", task_id="request-1")
    assert result.get(timeout=SOON) == {
        "id": "request-1",
        "task": "interop.request",
        "retries": 0,
        "queue": "celery",
        "attempt": 1,
        "priority": 0,
    }


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {}, r"add\(\) missing 1 required positional argument: 'y'"),
        ((), {}, r"add\(\) missing 2 required positional arguments: 'x' and 'y'"),
        ((1, 2, 3), {}, r"add\(\) takes 2 positional arguments but 3 were given"),
        ((1, 2), {"z": 3}, r"add\(\) got an unexpected keyword argument 'z'"),
        ((1, 2), {"x": 3}, r"add\(\) got multiple values for argument 'x'"),
    ],
)
def test_wrong_arguments(app: Celery, args: tuple[Any, ...], kwargs: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        call(app, "interop.add", *args, **kwargs)


def test_argument_of_another_type(app: Celery):
    with pytest.raises(TypeError, match="x"):
        call(app, "interop.add", "two", 3)
