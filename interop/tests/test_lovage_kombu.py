"""The parts of the Python transport that need no broker."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lovage_kombu.messages import LONGEST, decode, encode, seconds_until
from lovage_kombu.names import channel_name

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("celery", "celery"),
        ("team@billing/urgent", "team.billing.urgent"),
        ("celery@host.celery.pidbox", "celery.host.celery.pidbox"),
        ("celery\x06\x169", "celery.9"),
        ("two words", "two_words"),
        ("#a..b/@c.", "a.b.c"),
        ("größe", "gre"),
    ],
)
def test_channel_name(name: str, channel: str):
    assert channel_name(name) == channel


@pytest.mark.parametrize("name", ["", "@", "../..", "üß"])
def test_no_channel_name(name: str):
    with pytest.raises(ValueError, match="KubeMQ"):
        channel_name(name)


def in_seconds(seconds: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, 0),
        (0.9, 0),
        (3600.5, 3600),
        (3599.5, 3599),
    ],
)
def test_seconds_until(seconds: float, expected: int):
    # The test's own time passes too, less than the half second.
    assert seconds_until(in_seconds(seconds)) == expected


@pytest.mark.parametrize("moment", [None, "", "not a time"])
def test_seconds_until_nothing(moment: str | None):
    assert seconds_until(moment) == 0


def test_naive_and_zulu_times_are_utc():
    moment = (datetime.now(timezone.utc) + timedelta(seconds=100.5)).replace(tzinfo=None)
    assert seconds_until(moment.isoformat()) == seconds_until(moment.isoformat() + "Z") == 100


def message(**headers: Any) -> dict[str, Any]:
    return {"body": "e30=", "headers": headers, "properties": {"priority": 3}}


def test_encode():
    outgoing = encode(message(task="add", id="1"))
    assert json.loads(outgoing.body) == message(task="add", id="1")
    assert json.loads(outgoing.metadata) == {"task": "add", "id": "1"}
    assert outgoing.tags == {"priority": "3"}
    assert (outgoing.delay, outgoing.expiration) == (0, 0)


def test_encode_delay_and_expiration():
    outgoing = encode(message(eta=in_seconds(10.5), expires=in_seconds(20.5)))
    assert (outgoing.delay, outgoing.expiration) == (10, 20)


def test_encode_beyond_the_limits():
    outgoing = encode(message(eta=in_seconds(60), expires=in_seconds(10 * LONGEST)), max_delay=5)
    assert (outgoing.delay, outgoing.expiration) == (5, LONGEST)


def test_protocol_1_has_no_metadata():
    assert encode(message()).metadata is None


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'"properties"'])
def test_decode_refuses(body: bytes):
    with pytest.raises(ValueError):  # noqa: PT011  # the text is json's or ours
        decode(body)
