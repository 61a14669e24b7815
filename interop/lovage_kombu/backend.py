"""The result backend behind ``lovage://``: one KubeMQ queue per task.

The queue holds the task's meta as its only message. Readers peek, so that any
number of them can read it; it goes away by its expiration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

from celery.backends.base import KeyValueStoreBackend
from kombu.utils.encoding import bytes_to_str, ensure_bytes

from . import messages
from .broker import Broker, Unavailable
from .names import channel_name


class ResultBackend(KeyValueStoreBackend):
    """A key is a queue, its value the body of the first message."""

    task_keyprefix = "celery-result-"
    group_keyprefix = "celery-group-"

    supports_autoexpire = True
    # get() of a ResultSet then asks for many results at a time, by mget.
    supports_native_join = True

    #: How many peeks are on their way at once when many results are read.
    parallel_peeks = 16

    def __init__(self, app: Any, url: str | None = None, **kwargs: Any) -> None:
        super().__init__(app, url=url, **kwargs)
        parts = urlsplit(url or "")
        self._broker = Broker(parts.hostname, parts.port, unquote(parts.password or ""))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.parallel_peeks, thread_name_prefix="peek")

    def get(self, key: bytes | str) -> bytes | None:
        """Return the value of a key, or None."""
        return self._broker.peek(_channel(key))

    def mget(self, keys: Iterable[bytes | str]) -> dict[bytes | str, bytes | None]:
        """Return the values of those keys that are there.

        A peek into an empty queue waits a second in the broker. Celery calls this
        again for what is missing, so it stops when it has waited for a few.
        """
        missing = 0

        def look(key: bytes | str) -> tuple[bytes | str, bytes | None]:
            nonlocal missing
            value = None
            if missing < self.parallel_peeks:
                try:
                    value = self.get(key)
                except Unavailable:
                    # Celery retries its other reads by itself, this one it doesn't.
                    if not self.always_retry:
                        raise
            missing += value is None
            return key, value

        return dict(self._pool.map(look, keys))

    def _set_with_state(self, key: bytes | str, value: bytes | str, state: str) -> None:
        channel = _channel(key)
        self._broker.purge(channel)
        self._broker.send(
            channel,
            messages.Outgoing(
                body=ensure_bytes(value),
                metadata=json.dumps({"task_id": self._strip_prefix(key), "status": state}),
                expiration=int(min(self.expires or messages.LONGEST, messages.LONGEST)),
            ),
        )

    def delete(self, key: bytes | str) -> None:
        """Drop a key."""
        self._broker.purge(_channel(key))

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        """Tell result_backend_always_retry what a reconnect can heal."""
        return isinstance(exc, Unavailable)


def _channel(key: bytes | str) -> str:
    return channel_name(bytes_to_str(key))
