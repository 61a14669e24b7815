"""Every way in which Celery can write a message."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from stack import SOON, Stack

from app import make_app

pytestmark = pytest.mark.core

SERIALIZERS = ["json", "msgpack", "yaml"]
COMPRESSIONS = ["gzip", "zlib", "bzip2", "lzma", "brotli", "zstd"]

VALUES = ["Grüße", 1, -1.5, None, True, [1, [2]], {"a": {"b": "c"}}]


def echo(app: Celery, **options: Any) -> Any:
    return app.send_task("interop.echo", VALUES, {"key": "ü"}, **options).get(timeout=SOON)


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_serializer(app: Celery, serializer: str):
    assert echo(app, serializer=serializer) == [VALUES, {"key": "ü"}]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compression(app: Celery, compression: str):
    assert echo(app, compression=compression) == [VALUES, {"key": "ü"}]


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_serializer_and_compression(app: Celery, serializer: str):
    assert echo(app, serializer=serializer, compression="zstd") == [VALUES, {"key": "ü"}]


def test_msgpack_bytes(app: Celery):
    result = app.send_task("interop.go_type", [b"\xff\x00"], serializer="msgpack")
    assert result.get(timeout=SOON) == "[]uint8"


def test_compressed_body_of_a_megabyte(app: Celery):
    text = "tea " * 250_000
    result = app.send_task("interop.echo", [text], compression="gzip", argsrepr="(...)")
    assert result.get(timeout=SOON) == [[text], {}]


@pytest.fixture(scope="module")
def old_protocol(stack: Stack) -> Celery:
    return make_app(stack.url, task_protocol=1)


def test_protocol_1(old_protocol: Celery):
    assert echo(old_protocol) == [VALUES, {"key": "ü"}]


def test_protocol_1_failure(old_protocol: Celery):
    with pytest.raises(ValueError, match="^boom$"):
        old_protocol.send_task("interop.fail_value_error", ["boom"]).get(timeout=SOON)


def test_protocol_1_retry(old_protocol: Celery):
    assert old_protocol.send_task("interop.retry_then_succeed", [2]).get(timeout=SOON) == 2


def test_protocol_1_countdown(old_protocol: Celery):
    result = old_protocol.send_task("interop.add", [1, 2], countdown=1)
    assert result.get(timeout=SOON) == 3
