"""A node's standing towards its copies: primary, follower or fenced, and under which epoch.

It is in ``replication.json`` in the data path, written before anything acts on it. A node that was
never copied has no such file. All copies of one data path share its ``history``, a random name; an
epoch is the time between two promotions. Whoever hears of a higher epoch of the same history takes
no publishes any more, so in each epoch one node says OK.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from penstock.core.errors import ConfigError
from penstock.core.malformed import MALFORMED
from penstock.storage.files.disk import Disk
from penstock.storage.files.versions import check_version
from penstock.storage.store import Store

FILE_NAME: Final = "replication.json"
_FORMAT: Final = 1


class Role(StrEnum):
    """The part of a node: it takes publishes, copies the node that does, or may not take any."""

    PRIMARY = "primary"
    FOLLOWER = "follower"
    FENCED = "fenced"


class ReplicationState(msgspec.Struct):
    """The content of the file.

    ``primary`` is the address of the node that is, or was, followed. ``fork`` is where this epoch
    began, of a fenced node the next one: by topic the log and its end. ``owes_fence`` says that the
    primary before may not know yet of its successor, ``owes_hook`` that the operator's command has
    not been run since the promotion.
    """

    history: str = ""
    epoch: Annotated[int, msgspec.Meta(ge=0)] = 1
    role: Role = Role.PRIMARY
    primary: str = ""
    followers: list[str] = []
    fork: dict[str, tuple[int, int]] | None = None
    owes_fence: bool = False
    owes_hook: bool = False
    is_settled: bool = True
    """False after a change of role, until all that only this node had was put aside."""
    was_whole: bool = False
    """True of a copy that had all, in this epoch, and has not fallen behind since; the death of its
    primary does not change it."""
    fenced_epoch: int = 0
    """The highest epoch that this node has heard of and is not in."""
    successor: str = ""
    """The node for which the primary of a follower has stepped back, in ``fenced_epoch``: what that
    one acknowledges is not here. Empty while the primary is not known to have."""
    version: int = _FORMAT

    def follow(self, primary: str) -> None:
        """Become a follower of the node at this address."""
        self.owes_hook = False
        was_follower = self.role is Role.FOLLOWER
        # Of a former primary's messages some may be nowhere else.
        self.is_settled = self.is_settled and was_follower
        self.was_whole = self.was_whole and was_follower
        self.successor = self.successor if primary == self.primary else ""
        self.role, self.primary, self.owes_fence = Role.FOLLOWER, primary, False
        self.followers = []

    def hear(self, epoch: int, successor: str, *, is_this: bool = False) -> bool:
        """Note that the primary of this follower has stepped back; False if that was known.

        If it was for a promotion of this node, which has failed since, nothing is elsewhere.
        """
        known = self.fenced_epoch, self.successor
        self.fenced_epoch = max(epoch, self.fenced_epoch)
        if not is_this:
            self.successor, self.was_whole = successor, False
        return (self.fenced_epoch, self.successor) != known

    def begin(self, history: str, epoch: int) -> None:
        """Follow a primary of this history and epoch."""
        # Epoch 0 is that of a copy that has just been made: it has nothing to put aside.
        if epoch > self.epoch > 0:
            self.is_settled = self.was_whole = False
        self.history, self.epoch, self.successor = history, epoch, ""

    @property
    def known_epoch(self) -> int:
        """The highest epoch that this node has heard of."""
        return max(self.epoch, self.fenced_epoch)

    @property
    def next_epoch(self) -> int:
        """The epoch above all that this node has heard of."""
        return self.known_epoch + 1

    def is_other_s(self, epoch: int, successor: str) -> bool:
        """True if this node has stepped back already, for another one or for a higher epoch."""
        if self.role is not Role.FENCED or epoch > self.fenced_epoch:
            return False
        return epoch < self.fenced_epoch or successor != self.primary

    def promote(self, fork: dict[str, tuple[int, int]], epoch: int = 0) -> None:
        """Become primary under the next epoch, or a higher one; it begins at these ends of the
        logs.
        """
        self.epoch = max(self.next_epoch, epoch)
        self.role, self.fork, self.owes_fence = Role.PRIMARY, fork, True
        self.successor = ""
        self.is_settled = True

    def fence(self, epoch: int, successor: str, fork: Mapping[str, tuple[int, int]] | None) -> None:
        """Step back for the primary of a higher epoch, which began at ``fork``, if known."""
        self.role, self.primary = Role.FENCED, successor or self.primary
        self.fenced_epoch = max(epoch, self.fenced_epoch)
        self.fork = None if fork is None else dict(fork)
        self.is_settled = self.owes_fence = self.owes_hook = False


def only_here(
    fork: Mapping[str, tuple[int, int]], ends: Mapping[str, tuple[int, int]]
) -> dict[str, int]:
    """Messages behind the point at which the next epoch began, by topic."""
    found = {}
    for topic, (log, end) in ends.items():
        forked_log, forked = fork.get(topic, (0, 0))
        count = end - forked if forked_log == log else end
        if count > 0:
            found[topic] = count
    return found


def read_state(disk: Disk, data_path: str) -> ReplicationState | None:
    """The standing of a data path; None if it was never copied. Raises StorageError, ConfigError
    for a file that is damaged: its epoch must not be guessed.
    """
    path = os.path.join(data_path, FILE_NAME)
    data = disk.read_file(path)
    if data is None:
        return None
    try:
        state = msgspec.json.decode(data, type=ReplicationState)
    except MALFORMED as error:
        raise ConfigError(
            f"{path} is damaged ({error}): if no other node took publishes since, "
            "remove it, and take its copies again"
        ) from error
    check_version(path, state.version, _FORMAT)
    return state


def write_state(disk: Disk, data_path: str, state: ReplicationState) -> None:
    """Write it down, durably. Raises StorageError."""
    path = os.path.join(data_path, FILE_NAME)
    disk.replace_file(path, msgspec.json.format(msgspec.json.encode(state)) + b"\n")


def check_primary(store: Store) -> None:
    """Raise ConfigError for a data path that is not a primary's: what is published there would be
    known to nobody else.
    """
    state = read_state(store.disk, store.data_path)
    if state is not None and state.role is not Role.PRIMARY:
        raise ConfigError(
            f"the data path {store.data_path} is that of a {state.role} node: "
            f"nsqd --follow={state.primary} opens it"
        )
