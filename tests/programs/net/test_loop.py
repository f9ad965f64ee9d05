"""The cases of `net/test_loop.py` that need a port or a process."""

from __future__ import annotations

import subprocess
import sys


def test_closed_standard_streams_are_no_numbers_for_sockets() -> None:
    text = """
import asyncio, os
from penstock.net.loop import run
async def main():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    numbers = [one.fileno() for one in server.sockets]
    server.close()
    return min(numbers)
for number in range(3):
    os.close(number)
os._exit(run(main()))
"""
    done = subprocess.run([sys.executable, "-c", text], check=False, timeout=30)
    assert done.returncode > 2


def test_the_garbage_collector_is_calmed() -> None:
    code = """
import gc
from penstock.net.loop import calm_garbage_collector
calm_garbage_collector()
print(gc.get_freeze_count() > 0, gc.get_threshold()[0])
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert printed.stdout == "True 50000\n"
