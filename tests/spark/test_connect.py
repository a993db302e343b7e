"""The same through Spark Connect: a server of its own, which a client speaks to over a socket.

A process is either a client or has a session of its own, so the client is another one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.cases import MARKS
from tests.spark.conftest import SETTINGS, environment

pytestmark = [pytest.mark.gate, *MARKS]


def test_fit_score_evaluate_and_certify(tmp_path):
    pytest.importorskip("grpc", reason="grpcio, which Spark Connect needs, is not installed")
    root = Path(__file__).resolve().parents[2]
    client = Path(__file__).with_name("connect_client.py")
    variables = environment(tmp_path) | {"PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [sys.executable, str(client), json.dumps(SETTINGS)],
        env=os.environ | variables,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=1_800,  # if it hangs: it takes less than a minute
        check=False,
    )
    python = done.stderr[done.stderr.find("Traceback") :]  # Spark's own lines come afterwards
    assert done.stdout.endswith("all is as in memory\n"), python[:3000]
