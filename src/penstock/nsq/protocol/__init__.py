"""The NSQ V2 protocol without any I/O: bytes in, events out, and back.

- A server hears with ``commands.CommandReader``, whose ``events`` a session answers with ``frames``
  and, for messages, with what ``bodies`` encoded at publish; ``identify`` decides an IDENTIFY.
- A client speaks with ``encode`` and hears with ``frames.FrameReader``; neither needs numpy.
- Nothing here reads a clock, opens a socket or keeps more than ``limits`` allow.
"""
