"""The cases of `nsq/client/test_init.py` that need a port or a process."""

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
