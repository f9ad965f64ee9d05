"""Levels of durability: how far a publish has come by the time its producer hears OK."""

from __future__ import annotations

from enum import Enum


class Durability(Enum):
    """The level of a queue, visible in its statistics."""

    MEMORY = "memory"  # in this process: lost by kill -9, NSQ's own promise
    WRITE = "write"  # in the file: survives kill -9 of the broker
    FSYNC = "fsync"  # on stable storage: survives a power cut
