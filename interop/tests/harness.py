"""Starting, watching and stopping the programs that the tests talk to."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

# A loaded machine may take its time; a broken program is noticed by its exit.
START_TIMEOUT = 30
STOP_TIMEOUT = 60
EXIT_TIMEOUT = 10


def binary(variable: str) -> str:
    """Return the path that an environment variable must hold."""
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        raise RuntimeError(f"{variable}={path!r} is not an executable: start with interop/run.sh")
    return path


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(check: Callable[[], T], timeout: float = 15, what: str = "") -> T:
    """Call check until it returns something true, and return that."""
    deadline = time.monotonic() + timeout
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or check}")
        time.sleep(0.02)


class Program:
    """A child process whose output can be waited for."""

    def __init__(self, command: list[str], directory: Path, **environment: str) -> None:
        self.command = command
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def log(self) -> str:
        """Everything it has printed so far."""
        with self._changed:
            return "".join(self._lines)

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def wait_for_log(self, pattern: str, timeout: float = START_TIMEOUT) -> str:
        """Return the first line that matches, as soon as it is printed."""
        compiled = re.compile(pattern)
        seen = 0

        def found() -> str | None:
            nonlocal seen
            new, seen = self._lines[seen:], len(self._lines)
            return next((line for line in new if compiled.search(line)), None)

        with self._changed:
            match: list[str | None] = []

            def done() -> bool:
                match[:] = [found()]
                return match[0] is not None or self._ended

            self._changed.wait_for(done, timeout)
            if match[0] is not None:
                return match[0]
        state = "ended" if self._ended else f"did not in {timeout} s"
        raise AssertionError(f"{self.command} {state} without {pattern!r}:\n{self.log[-4000:]}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self, timeout: float = STOP_TIMEOUT) -> int:
        """Wait for the end and return the exit status."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(
                f"{self.command} did not end in {timeout} s:\n{self.log[-4000:]}"
            ) from None
        self._reader.join(EXIT_TIMEOUT)
        return status

    def stop(self) -> int:
        """End it with SIGTERM, as a supervisor does, and return the exit status."""
        if self.running:
            self.send(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self.running:
            self._process.kill()
        self._process.wait(EXIT_TIMEOUT)


class Service:
    """A Go program with a configuration file, which can be started again."""

    def __init__(
        self, command: list[str], directory: Path, settings: dict[str, Any], ready: str
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._ready = ready
        self._config = directory / "celery.yaml"
        self._command = [*command, "--config", str(self._config)]
        self._program: Program | None = None
        # A program that ends by itself has crashed, unless the test says otherwise.
        self._ended = False
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def program(self) -> Program:
        """The process that was started last."""
        assert self._program is not None, "it was never started"
        return self._program

    def configure(self, **settings: Any) -> None:
        """Change settings for the next start."""
        self._settings.update(settings)

    def restart(self, **settings: Any) -> None:
        """Stop it, change settings and start it again."""
        self.stop()
        self.configure(**settings)
        self.start()

    def launch(self) -> Program:
        """Start it and return at once."""
        self._config.write_text(yaml.safe_dump(self._settings, sort_keys=False))
        self._program = Program(self._command, self._directory)
        self._ended = False
        return self._program

    def start(self) -> Program:
        """Start it and return once it is ready for work."""
        program = self.launch()
        program.wait_for_log(self._ready)
        return program

    def stop(self) -> None:
        """End it with SIGTERM and insist on a clean end."""
        self._ended = True
        status = self.program.stop()
        assert status == 0, f"exit status {status}:\n{self.program.log[-4000:]}"

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._ended = True
        self.program.kill()

    def wait(self) -> int:
        """Wait for the end that a signal of the test brings, and return the status."""
        self._ended = True
        return self.program.wait()

    @contextmanager
    def running(self) -> Iterator[Service]:
        """Start it for the length of a with block."""
        try:
            self.start()
            yield self
        finally:
            if self._program is not None and not self._ended:
                self.stop()


class Runs:
    """The file to which the Go tasks ``interop.count*`` add a line per run."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def _events(self, event: str) -> list[str]:
        try:
            lines = Path(self.path).read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.split()[1] for line in lines if line.startswith(event + " ")]

    @property
    def started(self) -> Counter[str]:
        """How often each task id has started."""
        return Counter(self._events("start"))

    @property
    def ended(self) -> Counter[str]:
        """How often each task id has run to its end."""
        return Counter(self._events("end"))

    @property
    def cancelled(self) -> Counter[str]:
        """How often each task id was cancelled while it ran."""
        return Counter(self._events("cancelled"))
