"""Counts what a node answers while the file system under it is frozen, as a snapshot does it.

A loop-mounted file system is frozen for some seconds, while publishes go on and /ping is asked ten
times a second; Go's nsqd is asked the same where it is given. Needs root.

    python bench/frozen_disk.py [--seconds N] [--go PATH/TO/nsqd]
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PORT = 48151
TRY_S = 1.0
PINGS_PER_S = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0, help="of the frozen disk")
    parser.add_argument("--go", help="Go's nsqd, to be asked too")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if not chosen.inside:
        if os.geteuid() != 0:
            sys.exit("only root mounts and freezes a file system")
        os.execvp("unshare", ["unshare", "--mount", *sys.orig_argv, "--inside"])
    ours = [sys.executable, "-m", "penstock.cli.nsqd"]
    for name, program in (("penstock", ours), *((("nsqd in Go", [chosen.go]),) * bool(chosen.go))):
        with tempfile.TemporaryDirectory(prefix="penstock-frozen-") as folder:
            measure(name, program, Path(folder), chosen.seconds)


def measure(name: str, program: list[str], folder: Path, seconds: float) -> None:
    """Print how many of the pings were answered, and from when on with an error."""
    image, disk = folder / "image", folder / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, disk], check=True)
    (disk / "data").mkdir()
    words = [*program, f"--data-path={disk / 'data'}", f"--http-address=127.0.0.1:{PORT}",
             f"--tcp-address=127.0.0.1:{PORT + 1}"]  # fmt: skip
    node = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stopped = threading.Event()
    publisher = threading.Thread(target=publish, args=(stopped,))
    try:
        while ask("GET", "/ping", 1.0) == 0:
            time.sleep(0.1)
        ask("POST", "/channel/create?topic=t&channel=c", 5.0)
        publisher.start()
        time.sleep(1)
        thaw = subprocess.Popen(["sh", "-c", f"sleep {seconds}; fsfreeze -u '{disk}'"])
        subprocess.run(["fsfreeze", "-f", disk], check=True)
        begun, answers, faults = time.monotonic(), 0, list[float]()
        while time.monotonic() - begun < seconds - TRY_S:
            status = ask("GET", "/ping", TRY_S)
            answers += status > 0
            if status == 500:
                faults.append(time.monotonic() - begun)
            time.sleep(1 / PINGS_PER_S)
        thaw.wait()
        first = f"{faults[0]:.1f} s" if faults else "never"
        print(
            f"{name:12} {answers} answers to /ping in {seconds:g} s, an error after {first}",
            flush=True,
        )
    finally:
        stopped.set()
        subprocess.run(["fsfreeze", "-u", disk], capture_output=True, check=False)
        if publisher.is_alive():
            publisher.join()
        node.kill()
        node.wait()
        subprocess.run(["umount", "--lazy", disk], check=True)


def publish(stopped: threading.Event) -> None:
    while not stopped.is_set():
        ask("POST", "/pub?topic=t", 60.0, b"x" * 200)


def ask(method: str, path: str, seconds: float, body: bytes = b"") -> int:
    """The status of an answer; 0 without one in time."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=seconds)
    try:
        connection.request(method, path, body)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


if __name__ == "__main__":
    main()
