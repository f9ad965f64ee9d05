"""What importing parts of NSQ does not cost."""

from __future__ import annotations

import subprocess
import sys


def test_neither_numpy_nor_a_broker_is_imported() -> None:
    code = """
import sys, penstock.nsq.client as c
for name in c.__all__: getattr(c, name)
import penstock.nsq.client.aio
layers = ("cramjam", "zlib_ng", "penstock.net.tls.tls_layer")
heavy = ("numpy", "penstock.broker", "penstock.storage", "penstock.nsq.nsqd", "msgspec", *layers)
sys.exit([name for name in sys.modules if name.startswith(heavy)] or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_needs_no_numpy() -> None:
    code = (
        "import sys, penstock.nsq.protocol.frames as f, penstock.nsq.protocol.encode;"
        "r = f.FrameReader(); r.receive_data(f.message(1, 1, b'0' * 16, b'x') * 100);"
        "[b] = r.events(); list(b); b.finish_commands(0, 10); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
