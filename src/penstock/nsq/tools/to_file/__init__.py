"""nsq_to_file: the messages of topics into files, a line each (NSQ spec 6.4).

Reading order: ``topic`` (consume, write, sync, finish), ``writer`` (a topic's files, one after
another), ``rotation`` and ``filename`` (when a file ends, and the name of the next), ``output`` and
``disk`` (files and directories), ``discovery`` (which topics), ``options``, ``program``.
"""

from __future__ import annotations

from penstock.nsq.tools.to_file.program import run

__all__ = ["run"]
