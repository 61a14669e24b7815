"""The example of docs/rayserve.md, as it stands in the repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from harness import Service, binary, free_port
from rayserve_peer import PATIENCE
from stack import WORKER_READY, broker_settings

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rayserve"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where the example's broker listens, which is all that is changed of its settings."""
    directory, port = tmp_path_factory.mktemp("example"), free_port()
    settings = yaml.safe_load((EXAMPLE / "celery.yaml").read_text())
    settings["embedded_broker"] = broker_settings(directory, port)
    settings["health"]["listen"] = f"127.0.0.1:{free_port()}"
    command = [binary("LOVAGE_RAYSERVE_WORKER_BIN")]
    with Service(command, directory, settings, WORKER_READY).running():
        yield f"127.0.0.1:{port}"


def output(*command: str) -> list[str]:
    """Run a command and return the lines that it prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_producer_in_python(address: str):
    assert output(sys.executable, str(EXAMPLE / "producer.py"), address) == [
        "predict: {'label': 'cheerful', 'score': 0.8125}",
        "no text: ValueError: there is no text",
        "at once: {'label': 'cheerful', 'score': 0.35}",
    ]


def test_producer_in_go(address: str):
    lines = output(binary("LOVAGE_RAYSERVE_CLIENT_BIN"), address)
    assert "SUCCESS map[label:cheerful score:0.8125] " in lines
    assert lines[-1] == "ValueError: there is no text"
