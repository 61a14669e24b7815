"""What a kombu message looks like as a KubeMQ queue message. Pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

# The longest delay and expiration that the SDK lets through, in seconds.
LONGEST = 86_400


@dataclass(frozen=True)
class Outgoing:
    """The fields of a queue message that depend on the kombu message."""

    body: bytes
    metadata: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    delay: int = 0
    expiration: int = 0


def encode(message: dict[str, Any], max_delay: int = LONGEST) -> Outgoing:
    """Turn a kombu envelope into a queue message.

    A delay beyond max_delay is cut, because the broker refuses it: the worker
    reads the eta header itself and hands back what comes too early.
    """
    headers = message.get("headers") or {}
    properties = message.get("properties") or {}
    return Outgoing(
        body=json.dumps(message).encode(),
        metadata=json.dumps(headers) if headers else None,
        tags={"priority": str(properties.get("priority", 0))},
        delay=min(seconds_until(headers.get("eta")), max_delay),
        expiration=min(seconds_until(headers.get("expires")), LONGEST),
    )


def seconds_until(moment: str | None) -> int:
    """Whole seconds from now to an ISO time, rounded down.

    It is 0, which means "none" to the broker, for a time that is past, missing or
    unreadable: what the header means is the worker's to decide.
    """
    if not moment:
        return 0
    try:
        # Before Python 3.11 fromisoformat doesn't know the Z.
        parsed = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        return 0
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=timezone.utc)
    return max(0, int((parsed - datetime.now(timezone.utc)).total_seconds()))


def decode(body: bytes) -> dict[str, Any]:
    """Read a kombu envelope, or raise ValueError."""
    message = json.loads(body)
    if not isinstance(message, dict) or "properties" not in message:
        raise ValueError("the body is not a kombu envelope")
    return message
