"""Lets Celery 5.2 run on Python 3.12 and later.

It looks plugins up by entry_points().get(), which Python has removed. Import
this module before Celery.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any


def _get(self: metadata.EntryPoints, group: str, default: Any = ()) -> Any:
    return self.select(group=group) or default


if not hasattr(metadata.EntryPoints, "get"):
    metadata.EntryPoints.get = _get
