"""Python's Sentry SDK as the producer: both sides report one trace."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import brotli
import pytest
from conftest import MakeStack
from harness import eventually

INTEROP = Path(__file__).resolve().parent.parent


class SentryServer(ThreadingHTTPServer):
    """A Sentry that takes envelopes and keeps their items."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.items: list[tuple[str, dict[str, Any]]] = []

    @property
    def dsn(self) -> str:
        """The address as the SDKs take it."""
        return f"http://public@127.0.0.1:{self.server_port}/1"

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [payload for name, payload in list(self.items) if name == kind]


class _Handler(BaseHTTPRequestHandler):
    server: SentryServer

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        encoding = self.headers.get("Content-Encoding")
        if encoding == "gzip":
            body = gzip.decompress(body)
        elif encoding == "br":
            body = brotli.decompress(body)
        lines = body.split(b"\n")[1:]
        for header, payload in zip(lines[::2], lines[1::2]):
            self.server.items.append((json.loads(header)["type"], json.loads(payload)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def sentry() -> Iterator[SentryServer]:
    with SentryServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def call(sentry: SentryServer, url: str, *command: str) -> str:
    """Run the producer; return the state in which the task has ended."""
    ended = subprocess.run(
        [sys.executable, "sentry_producer.py", sentry.dsn, url, *command],
        cwd=INTEROP,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()[1]


def trace(event: dict[str, Any]) -> dict[str, Any]:
    return event["contexts"]["trace"]


def split(sentry: SentryServer, runs: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the producer's transaction and those of the Go worker, in order."""
    sent = eventually(
        lambda: (all_ := sentry.of("transaction")) and len(all_) > runs and all_, 30, "transactions"
    )
    (producer,) = (t for t in sent if t["transaction"] == "checkout")
    worker = [t for t in sent if t is not producer]
    return producer, sorted(worker, key=lambda t: int(t["tags"]["retries"]))


def process(transaction: dict[str, Any]) -> dict[str, Any]:
    (span,) = (s for s in transaction["spans"] if s["op"] == "queue.process")
    return span


def test_a_failure_is_in_the_trace_of_its_producer(sentry: SentryServer, make_stack: MakeStack):
    settings = {"dsn": sentry.dsn, "traces_sample_rate": 0.0, "environment": "interop"}
    stack = make_stack(sentry=settings)
    assert call(sentry, stack.url, "interop.retry_in_vain", "no funds") == "FAILURE"

    producer, runs = split(sentry, 3)
    assert len(runs) == 3, "one and two retries"
    assert {trace(t)["trace_id"] for t in runs} == {trace(producer)["trace_id"]}
    # The producer decides what is sampled: the worker's own rate is 0.
    (submit,) = (s for s in producer["spans"] if s["op"] == "queue.submit.celery")
    parents = [submit["span_id"], process(runs[0])["span_id"], process(runs[1])["span_id"]]
    assert [trace(t)["parent_span_id"] for t in runs] == parents
    assert [trace(t)["status"] for t in runs] == ["aborted", "aborted", "internal_error"]
    assert {trace(t)["op"] for t in runs} == {"queue.task.celery"}
    assert all(process(t)["data"]["messaging.message.receive.latency"] >= 0 for t in runs)

    (event,) = sentry.of("event")
    assert [e["type"] for e in event["exception"]] == ["ValueError"]
    assert trace(event)["trace_id"] == trace(producer)["trace_id"]
    assert event["tags"]["celery_task"] == "interop.retry_in_vain"
    assert event["tags"]["retries"] == "2"
    assert event["tags"]["max_retries_exceeded"] == "true"
    assert event["environment"] == "interop"
    assert "no funds" not in json.dumps(event["contexts"]), "arguments are not sent"
    (crumb,) = event["breadcrumbs"]
    assert crumb["data"]["cause"] == "ValueError('no funds')"


def test_without_transactions_a_failure_is_in_the_trace_too(
    sentry: SentryServer, make_stack: MakeStack
):
    stack = make_stack(sentry={"dsn": sentry.dsn})
    assert call(sentry, stack.url, "interop.fail_go_error") == "FAILURE"
    producer, _ = split(sentry, 0)
    (event,) = eventually(lambda: sentry.of("event"), 30, "the event")
    assert trace(event)["trace_id"] == trace(producer)["trace_id"]
    assert trace(event)["parent_span_id"] in {s["span_id"] for s in producer["spans"]}


def test_what_waits_is_sent_at_the_end(sentry: SentryServer, make_stack: MakeStack):
    stack = make_stack(sentry={"dsn": sentry.dsn})
    for n in range(20):
        stack.app.send_task("interop.fail_value_error", [f"boom {n}"])
    stack.worker.stop()
    assert len(sentry.of("event")) <= 20
    stack.worker.start()
    eventually(lambda: len(sentry.of("event")) == 20, 30, "all failures, each once")
