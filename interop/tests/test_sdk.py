"""KubeMQ's own SDK against the broker of the binary, without Celery."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness import Service, binary, free_port
from stack import BROKER_READY, broker_settings

SUITE = Path(__file__).resolve().parent.parent / "test_sdk_broker.py"


def test_sdk(tmp_path: Path):
    port = free_port()
    broker = Service(
        [binary("LOVAGE_BIN"), "broker"],
        tmp_path / "broker",
        {"embedded_broker": broker_settings(tmp_path, port)},
        BROKER_READY,
    )
    # The suite reads the address when it is imported, hence a process of its own.
    with broker.running():
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", str(SUITE)],
            env={**os.environ, "LOVAGE_BROKER_ADDRESS": f"127.0.0.1:{port}"},
            capture_output=True,
            text=True,
        )
    print(run.stdout, run.stderr)
    assert run.returncode == 0
