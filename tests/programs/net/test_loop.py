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
    done = subprocess.run([sys.executable, "-c", text], check=False, timeout=120)
    assert done.returncode > 2


def test_a_daemon_that_serves_loads_the_rest_and_keeps_the_garbage_collector_off_it() -> None:
    code = """
import asyncio, gc, sys
from penstock.core.late_import import import_late
import_late("numpy")
from penstock.net.loop import run, settle
async def main():
    settle()
    assert "numpy._core" not in sys.modules, "the first answers wait for nothing"
    while gc.get_freeze_count() == 0:
        await asyncio.sleep(0.01)
    print("numpy._core" in sys.modules, gc.get_threshold()[0])
run(main())
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert printed.stdout == "True 50000\n"
