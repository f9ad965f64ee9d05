"""Status of a run, in a file beside its checkpoint, and the lock of those that run now.

The kernel frees the lock of a process that is gone, however it ended: a status without its lock is
that of a run that ended, and one that says "running" then is of a run that was killed. A checkpoint
that is not on this machine has neither.
"""

from __future__ import annotations

import fcntl
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.spark.pipelines.own import local_folder

_LOCK = "penstock.lock"
_STATUS = "penstock.status.json"


class InUseError(PenstockError):
    """Another process runs with this checkpoint."""


class StatusFile:
    """The lock and the status of one run; a context manager."""

    def __init__(self, checkpoint: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._folder = local_folder(checkpoint)
        self._clock = clock
        self._due_ns = 0
        self._changed = False
        self._lock: IO[str] | None = None
        self._facts: dict[str, Any] = {}

    def __enter__(self) -> StatusFile:
        """Take the lock. Raises InUseError, or PenstockError where nothing can be written."""
        if self._folder is None:
            return self
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / _LOCK).open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            pid = (read(str(self._folder)) or {}).get("pid", "unknown")
            raise InUseError(
                f"checkpoint {self._folder} is in use: process {pid} runs a pipeline with it"
            ) from None
        except OSError as error:
            self._release()
            raise PenstockError(f"checkpoint {self._folder}: {error.strerror}") from None
        self._facts = {"pid": os.getpid(), "started": now(self._clock)}
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def tell(self, *, at_once: bool = False, **facts: Any) -> None:
        """Note these facts; they are written at most once a second unless ``at_once``."""
        self._changed |= any(self._facts.get(key) != value for key, value in facts.items())
        self._facts |= facts
        due = at_once or (self._changed and self._clock.monotonic_ns() >= self._due_ns)
        if self._lock is None or self._folder is None or not due:
            return
        self._changed = False
        self._due_ns = self._clock.monotonic_ns() + SECOND
        whole = self._facts | {"updated": now(self._clock)}
        written = self._folder / f"{_STATUS}.new"
        try:
            written.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
            written.replace(self._folder / _STATUS)
        except OSError:
            return  # a full disk ends the query itself, if it matters to it

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def read(checkpoint: str) -> dict[str, Any] | None:
    """The last status, with ``state`` as it is now; None where there never was a run.

    ``state`` is starting, running, stopping, stopped, failed, or killed.
    """
    folder = local_folder(checkpoint)
    if folder is None:
        return None
    try:
        facts = json.loads((folder / _STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(facts, dict):
        return None
    if facts.get("state") in ("starting", "running", "stopping") and not _is_locked(folder):
        facts["state"] = "killed"
    return facts


def now(clock: Clock) -> str:
    """The time for people and programs: RFC 3339, whole seconds."""
    return datetime.fromtimestamp(clock.wall_ns() // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_locked(folder: Path) -> bool:
    try:
        # Another user than the one that runs it may look, and several at once.
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
