"""A message that counts only with the database's change: give the name server's address, as in
python examples/rocketmq_transaction.py 127.0.0.1:9876
"""

import sqlite3
import sys

from penstock.rocketmq.client import Config, Message, Received, TransactionState
from penstock.rocketmq.client.blocking import LitePullConsumer, Producer


def main(name_server: str) -> None:
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE TABLE payments (id TEXT PRIMARY KEY, amount INTEGER CHECK (amount > 0))"
    )

    def pay(message: Message) -> TransactionState:
        try:
            with database:
                database.execute(
                    "INSERT INTO payments VALUES (?, ?)", (message.keys, int(message.body))
                )
        except sqlite3.IntegrityError:
            return TransactionState.ROLLBACK
        return TransactionState.COMMIT

    def check(message: Received) -> TransactionState:
        found = database.execute("SELECT 1 FROM payments WHERE id = ?", message.keys).fetchone()
        return TransactionState.COMMIT if found else TransactionState.ROLLBACK

    config = Config(namesrv_addr=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    with Producer("bank", config=config, on_check=check) as producer:
        for key, amount in (("a", b"5"), ("b", b"0")):
            result = producer.send_in_transaction(Message("payments", amount, keys=key), pay)
            print("payment", key, result.state.name)

    with LitePullConsumer("ledger", config=config) as consumer:
        consumer.subscribe("payments")
        for message in consumer:
            print("booked", *message.keys, message.body.decode())
            break


main(sys.argv[1])
