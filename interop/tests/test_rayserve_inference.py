"""Synchronous inference: a query on the queue's own channel."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from harness import eventually
from rayserve_peer import PATIENCE
from rayserve_stack import RayServe


def answer(response: Any) -> dict[str, Any]:
    """Return the body of a response that says that the query was executed."""
    assert response.is_executed
    assert response.error == ""
    return json.loads(response.body)


def test_success(rayserve: RayServe):
    response = rayserve.peer.query("interop.greet", "Ada", greeting="Ahoy")
    assert answer(response) == {"status": "SUCCESS", "result": "Ahoy, Ada! ", "error": None}


def test_error(rayserve: RayServe):
    response = rayserve.peer.query("interop.fail_value_error", "no such model")
    expected = {"status": "FAILURE", "result": None, "error": "ValueError: no such model"}
    assert answer(response) == expected


def test_error_is_tried_once(rayserve: RayServe):
    before = sum(rayserve.runs.started.values())
    response = rayserve.peer.query("interop.fail_first", rayserve.runs.path, 1)
    assert answer(response)["error"] == "ValueError: no GPU, delivery 1"
    assert sum(rayserve.runs.started.values()) == before + 1


def test_unknown_handler(rayserve: RayServe):
    got = answer(rayserve.peer.query("nobody.knows_this"))
    assert (got["status"], got["result"]) == ("FAILURE", None)
    assert "nobody.knows_this" in got["error"]


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[1, 2]", b'{"args": []}'])
def test_malformed_query_is_answered(rayserve: RayServe, body: bytes):
    """The adapter lets the caller of the first two wait for its timeout."""
    got = answer(rayserve.peer.query_raw(body))
    assert (got["status"], got["result"]) == ("FAILURE", None)
    assert "malformed" in got["error"]


def test_result_that_json_cannot_hold_is_answered(rayserve: RayServe):
    got = answer(rayserve.peer.query("interop.unencodable"))
    assert (got["status"], got["result"]) == ("FAILURE", None)
    assert got["error"]


def test_timeout(rayserve: RayServe):
    """The caller gets the broker's timeout, and the handler ends, too."""
    with pytest.raises(grpc.RpcError, match="Error 301: timeout"):
        rayserve.peer.query("interop.until_cancelled", rayserve.runs.path, timeout=1)
    eventually(lambda: rayserve.metrics()["in_flight"] == 0, PATIENCE, "no handler that runs")
    assert answer(rayserve.peer.query("interop.add", 1, 2))["result"] == 3
