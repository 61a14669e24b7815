"""Says what Celery and kombu read in the bytes that package protocol writes.

Reads one JSON object a line from standard input and answers each with one line::

    {"body_b64": ..., "content_type": ..., "content_encoding": ..., "compression": null}
        -> {"value": ...}, the decoded body
    {"envelope": "..."}
        -> the fields of the request that a worker makes of the message
    {"meta_b64": ..., "serializer": ...}
        -> {"status": ..., "result": ...}, as AsyncResult would give them

Values are written as kombu's own JSON with sorted keys, in a string. An error is
{"error": "..."}.

Run by ``go test -tags interop ./pkg/protocol`` with LOVAGE_PYTHON, an interpreter
that has requirements-new.txt.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from celery import Celery
from celery.worker.request import Request
from celery.worker.strategy import hybrid_to_proto2
from kombu import compression, serialization
from kombu.transport.virtual import Base64, Message
from kombu.utils import json as kombu_json

ACCEPT = ["json", "yaml", "msgpack"]

app = Celery("roundtrip", broker="memory://", backend="cache+memory://", set_as_current=False)
app.conf.update(accept_content=ACCEPT, result_accept_content=ACCEPT)


@app.task(name="proj.add", ignore_result=False)
def add(*args: Any, **kwargs: Any) -> None:
    """Stand for the task that the messages name."""


class Channel:
    """The little that a message of a virtual transport wants of its channel."""

    def decode_body(self, body: str, encoding: str | None = None) -> Any:
        """Undo the body encoding."""
        return Base64().decode(body) if encoding == "base64" else body


def text(value: Any) -> str:
    """Return value as the JSON that EncodeJSON writes."""
    return kombu_json.dumps(value, sort_keys=True)


def read_body(line: dict[str, Any]) -> dict[str, Any]:
    """Decompress and deserialize a body."""
    body = base64.b64decode(line["body_b64"])
    if line.get("compression"):
        body = compression.decompress(body, line["compression"])
    accept = {serialization.registry.name_to_type[name] for name in ACCEPT}
    value = serialization.loads(body, line["content_type"], line["content_encoding"], accept=accept)
    return {"value": text(value)}


def read_envelope(line: dict[str, Any]) -> dict[str, Any]:
    """Make the request that a worker makes of a message."""
    raw = kombu_json.loads(line["envelope"])
    message = Message(
        raw, channel=Channel(), accept=set(serialization.prepare_accept_content(ACCEPT))
    )
    made: dict[str, Any] = {"headers": None, "decoded": False, "body": None}
    if "task" not in message.headers:
        body, headers, made["decoded"], _ = hybrid_to_proto2(message, message.payload)
        made.update(headers=headers, body=body)
    request = Request(message, app=app, **made)
    args, kwargs, embed = request.body if made["decoded"] else message.payload
    return {
        "id": request.id,
        "task": request.type,
        "name": request.name,
        "eta": request.eta and request.eta.isoformat(),
        "expires": request.expires and request.expires.isoformat(),
        "time_limits": text(request.time_limits),
        "root_id": request.root_id,
        "parent_id": request.parent_id,
        "group": request.request_dict.get("group"),
        "retries": request.request_dict.get("retries"),
        "stamps": text(request.request_dict.get("stamps")),
        "argsrepr": request.argsrepr,
        "reply_to": request.reply_to,
        "correlation_id": request.correlation_id,
        "routing_key": request.delivery_info["routing_key"],
        "args": text(args),
        "kwargs": text(kwargs),
        "embed": text(
            {name: embed.get(name) for name in ("callbacks", "errbacks", "chain", "chord")}
        ),
        "chord": embed.get("chord") and app.signature(embed["chord"]).task,
    }


def read_meta(line: dict[str, Any]) -> dict[str, Any]:
    """Read a stored result as a client does."""
    app.conf.result_serializer = line["serializer"]
    backend = app._get_backend()
    meta = backend.decode_result(base64.b64decode(line["meta_b64"]))
    result = meta["result"]
    if isinstance(result, BaseException):
        kind = type(result)
        result = {"module": kind.__module__, "name": kind.__qualname__, "args": list(result.args)}
    return {"status": meta["status"], "task_id": meta["task_id"], "result": text(result)}


def answer(line: dict[str, Any]) -> dict[str, Any]:
    """Choose by the fields of a line."""
    if "envelope" in line:
        return read_envelope(line)
    return read_meta(line) if "meta_b64" in line else read_body(line)


def main() -> None:
    """Answer each line of standard input."""
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # an answer, for the test to show
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
