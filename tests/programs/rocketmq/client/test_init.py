"""The cases of `rocketmq/client/test_init.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys


def test_neither_numpy_nor_a_broker_is_imported() -> None:
    code = """
import sys, penstock.rocketmq.client as c
for name in c.__all__: getattr(c, name)
import penstock.rocketmq.client.aio, penstock.rocketmq.client.blocking
heavy = ("numpy", "penstock.broker", "penstock.rocketmq.broker", "penstock.rocketmq.namesrv",
         "penstock.nsq", "cramjam", "penstock.net.tls.tls_layer", "penstock.storage.")
found = [name for name in sys.modules if name.startswith(heavy)]
found.remove("penstock.storage.compiled")
sys.exit(found or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
