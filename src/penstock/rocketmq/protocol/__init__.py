"""The RocketMQ remoting protocol without any I/O: bytes in, commands out, and back.

- ``frames`` cuts a stream into frames; ``command`` is what a frame says, in either header
  serialisation (``header_json``, ``header_binary``).
- ``message`` and ``batch_body`` are the records that senders and brokers exchange, ``properties``
  and ``ids`` their parts.
- ``fastjson`` reads and writes the JSON of bodies, which is not quite JSON.
- ``codes`` is the table of all request and response codes.
"""
