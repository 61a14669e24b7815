"""Values keep their type and their precision on the way there and back.

kombu before 5.3 writes dates, decimals and UUIDs as plain strings and can't
write bytes; for such a client the expected value is the string.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from celery import Celery
from kombu.exceptions import EncodeError
from stack import SOON, TYPED_JSON

pytestmark = pytest.mark.core

only_typed = pytest.mark.typed_json


def echoed(app: Celery, value: Any) -> Any:
    args, kwargs = app.tasks["interop.echo"].delay(value, key=value).get(timeout=SOON)
    assert args == [value] or not TYPED_JSON
    assert kwargs == {"key": args[0]}
    return args[0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        2**63,
        2**64,
        2**100,
        -(2**100),
        1.5,
        -0.1,
        1e308,
        5e-324,
        "",
        [],
        {},
        [1, [2, [3, [None]]]],
        {"a": {"b": [{"c": "d"}]}, "": 1},
    ],
    ids=repr,
)
def test_plain_values(app: Celery, value: Any):
    back = echoed(app, value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("value", [1.0, -2.0, 1e16, 1e22])
def test_a_whole_float_stays_a_float(app: Celery, value: float):
    assert isinstance(echoed(app, value), float)


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity(app: Celery, value: float):
    assert echoed(app, value) == value


def test_not_a_number(app: Celery):
    args, _ = app.tasks["interop.echo"].delay(math.nan).get(timeout=SOON)
    assert math.isnan(args[0])


BERLIN = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc), "2026-02-03T04:05:06Z"),
        (datetime(2026, 2, 3, 4, 5, 6, 789012, BERLIN), "2026-02-03T04:05:06.789012+02:00"),
        (datetime(2026, 2, 3, 4, 5, 6), "2026-02-03T04:05:06"),
        (date(2026, 2, 3), "2026-02-03T00:00:00"),
        (time(4, 5, 6, 7), "04:05:06.000007"),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+400"), "1E+400"),
        (Decimal("0.1234567890123456789012345678901"), "0.1234567890123456789012345678901"),
        (UUID("12345678-1234-5678-1234-567812345678"), "12345678-1234-5678-1234-567812345678"),
    ],
    ids=repr,
)
def test_typed_values(app: Celery, value: Any, plain: str):
    back = echoed(app, value)
    assert back == (value if TYPED_JSON else plain)
    # 1.1 == 1.10 and the same moment in two zones are equal to Python.
    assert str(back) == (str(value) if TYPED_JSON else plain)


@pytest.mark.parametrize("value", [b"", b"plain", b"\x00\xff\xfe"], ids=repr)
def test_bytes(app: Celery, value: bytes):
    if TYPED_JSON:
        assert echoed(app, value) == value
    else:
        with pytest.raises(EncodeError):
            app.tasks["interop.echo"].delay(value)


@only_typed
def test_typed_values_inside_others(app: Celery):
    value = {"when": [datetime(2026, 1, 1, tzinfo=timezone.utc)], "price": {"eur": Decimal("9.90")}}
    assert echoed(app, value) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "int64"),
        (2**63, "*big.Int"),
        (1.0, "float64"),
        ("text", "string"),
        (None, "<nil>"),
        ([1], "[]interface {}"),
        ({"a": 1}, "map[string]interface {}"),
    ],
    ids=repr,
)
def test_types_in_go(app: Celery, value: Any, expected: str):
    assert app.send_task("interop.go_type", [value]).get(timeout=SOON) == expected


@only_typed
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 1, 1, tzinfo=timezone.utc), "time.Time"),
        (datetime(2026, 1, 1), "protocol.NaiveDateTime"),
        (date(2026, 1, 1), "protocol.Date"),
        (time(1, 2), "protocol.TimeOfDay"),
        (Decimal("1.1"), "protocol.Decimal"),
        (UUID(int=1), "uuid.UUID"),
        (b"\xff", "[]uint8"),
    ],
    ids=repr,
)
def test_typed_values_in_go(app: Celery, value: Any, expected: str):
    assert app.send_task("interop.go_type", [value]).get(timeout=SOON) == expected


def test_int64_argument(app: Celery):
    assert app.send_task("interop.double", [2**62 - 1]).get(timeout=SOON) == 2**63 - 2


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**100])
def test_integer_that_int64_cannot_hold(app: Celery, value: int):
    with pytest.raises(TypeError, match=rf"number.*{value}"):
        app.send_task("interop.double", [value]).get(timeout=SOON)


def test_decimal_argument(app: Celery):
    # 9.95 * 3 in binary floating point is 29.849999999999998.
    result = app.send_task("interop.invoice", [Decimal("9.95"), 3]).get(timeout=SOON)
    assert decimal_of(result) == Decimal("29.85")


def decimal_of(result: Any) -> Decimal:
    """Read a Decimal that the worker wrote typed, whoever reads it."""
    if TYPED_JSON:
        assert isinstance(result, Decimal)
        return result
    assert result["__type__"] == "decimal"
    return Decimal(result["__value__"])


def test_time_argument(app: Celery):
    moment = datetime(2026, 3, 1, 12, 0, 0, 250000, timezone.utc)
    result = app.send_task("interop.an_hour_later", [moment]).get(timeout=SOON)
    if not TYPED_JSON:
        assert result["__type__"] == "datetime"
        result = datetime.fromisoformat(result["__value__"])
    assert result == moment + timedelta(hours=1)


@only_typed
def test_bytes_argument(app: Celery):
    assert app.send_task("interop.reverse", [b"\x00\x01\xff"]).get(timeout=SOON) == b"\xff\x01\x00"


def test_nested_structs(app: Celery):
    result = app.send_task(
        "interop.ship",
        kwargs={
            "to": {"street": "Hauptstraße 1"},
            "lines": [{"item": "tea", "quantity": 2}, {"item": "pot", "quantity": 1}],
            "notes": {"bell": "Müller"},
        },
    )
    assert result.get(timeout=SOON) == {
        "label": "Hauptstraße 1, Berlin",
        "items": 3,
        "notes": {"bell": "Müller"},
    }


@pytest.mark.parametrize("size", [1_000_000, 8_000_000])
def test_big_result(app: Celery, size: int):
    assert app.send_task("interop.big", [size]).get(timeout=SOON) == "x" * size


def test_big_argument(app: Celery):
    # Celery writes an argsrepr of everything unless it is told what to show.
    text = "y" * 6_000_000
    result = app.send_task("interop.echo", [text], argsrepr="(...)")
    assert result.get(timeout=SOON) == [[text], {}]
