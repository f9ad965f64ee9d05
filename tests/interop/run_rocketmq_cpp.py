"""Sends with RocketMQ's C++ client, as the package `rocketmq` of PyPI brings it along.

Called with the name server's address and topics; prints a JSON object: for each topic the send's
status and offset, or the exception's name.
"""

from __future__ import annotations

import json
import sys

from rocketmq.client import Message, Producer

name_server, *topics = sys.argv[1:]
producer = Producer("group")
producer.set_namesrv_addr(name_server)
producer.start()
outcome: dict[str, object] = {}
for topic in topics:
    message = Message(topic)
    message.set_body("hello")
    try:
        result = producer.send_sync(message)
        outcome[topic] = [int(result.status), result.offset]
    except Exception as error:
        outcome[topic] = type(error).__name__
producer.shutdown()
print(json.dumps(outcome), flush=True)
