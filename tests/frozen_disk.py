"""A file system of a test's own that is frozen on command, as snapshots of a disk do it."""

from __future__ import annotations

import http.client
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.debian import needed

FROZEN_S = 5.0
ANSWER_S = 1.5
"""Within it, a daemon whose loop is held up answers as well."""
MARKS = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts and freezes a file system"),
]


@contextmanager
def mounted(home: Path) -> Iterator[Path]:
    """A file system of its own, which thaws whatever happens."""
    image, folder = home / "image", home / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(2 << 30)
    subprocess.run([needed("mkfs.ext4", "e2fsprogs"), "-q", "-F", image], check=True)
    done = subprocess.run([needed("mount", "mount"), "-o", "loop", image, folder],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["fsfreeze", "-u", folder], capture_output=True, check=False)
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def frozen(folder: Path) -> Iterator[float]:
    """The time at which it was frozen; it thaws in time, even if this process is killed."""
    thaw = subprocess.Popen(["sh", "-c", f"sleep {FROZEN_S}; fsfreeze -u '{folder}'"])
    subprocess.run([needed("fsfreeze", "util-linux"), "-f", folder], check=True)
    try:
        yield time.monotonic()
    finally:
        thaw.wait(60)


def asked(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, float]:
    """Status, body and seconds of an answer."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data, time.monotonic() - began


def until_healthy(port: int) -> None:
    """Wait until the daemon has seen that the disk answers again."""
    deadline = time.monotonic() + 60
    while (answer := asked(port, "GET", "/ping"))[:2] != (200, b"OK"):
        assert time.monotonic() < deadline, answer
        time.sleep(0.01)
