"""The names of KubeMQ channels that stand for Celery's queues and exchanges."""

from __future__ import annotations

import re

# What Celery's names are made of and KubeMQ's may not be. \x06 is the separator
# that kombu's Redis transport puts into the names of priority queues.
_REPLACED = str.maketrans({"@": ".", "/": ".", "#": ".", "\x06": ".", " ": "_"})
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_DOTS = re.compile(r"\.{2,}")


def channel_name(name: str) -> str:
    """Map a Celery name to the channel that kubemq-celery uses for it."""
    dotted = _DOTS.sub(".", name.translate(_REPLACED)).strip(".")
    channel = _FORBIDDEN.sub("", dotted)
    if not channel:
        raise ValueError(f"nothing of the name {name!r} is allowed in a KubeMQ channel")
    return channel
