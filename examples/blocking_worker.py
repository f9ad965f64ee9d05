"""Without asyncio: python examples/blocking_worker.py 127.0.0.1:4150"""

import sys

from penstock.nsq.client.blocking import Consumer, Producer


def main(address: str) -> None:
    with Producer(address) as producer:
        for name in (b"a", b"b", b"c"):
            producer.publish("files", name)

    with Consumer("files", "copy", nsqd_tcp_addresses=[address], max_in_flight=10) as consumer:
        for _ in range(3):
            message = consumer.get(timeout=5)
            assert message is not None, "no message within 5 seconds"
            print("copied", message.body.decode())
            message.finish()


main(sys.argv[1])
