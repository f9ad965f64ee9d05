"""to_nsq: publishes what comes on stdin, record by record, to every nsqd (NSQ spec 6.7).

``program`` is the command line and what it comes to. ``stdin`` brings blocks of bytes, ``records``
cuts them up, ``throttle`` holds them back, a ``sender`` publishes them to one nsqd, ``progress``
shows how far it got.
"""

from __future__ import annotations

from penstock.nsq.tools.to_nsq.program import run

__all__ = ["run"]
