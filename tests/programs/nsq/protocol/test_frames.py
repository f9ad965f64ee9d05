"""The cases of `nsq/protocol/test_frames.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys


def test_needs_no_numpy() -> None:
    code = (
        "import sys, penstock.nsq.protocol.frames as f, penstock.nsq.protocol.encode;"
        "r = f.FrameReader(); r.receive_data(f.message(1, 1, b'0' * 16, b'x') * 100);"
        "[b] = r.events(); list(b); b.finish_commands(0, 10); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
