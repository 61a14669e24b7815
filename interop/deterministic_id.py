"""The Python side of tasks.DeterministicID, as docs/idempotency.md shows it."""

from __future__ import annotations

import json
import uuid
from typing import Any


def deterministic_id(name: str, *args: Any) -> str:
    """Return the task id that follows from the call."""
    call = json.dumps([name, *args], sort_keys=True, allow_nan=False)
    return str(uuid.uuid5(uuid.NAMESPACE_OID, call))
