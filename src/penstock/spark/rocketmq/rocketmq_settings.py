"""The options of ``format("rocketmq")``: those of ``nsq``, and name servers in place of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import ClassVar, Final

from penstock.rocketmq.blocking import Account
from penstock.spark.access import Access
from penstock.spark.cluster_options import require_port
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import option, printable, text
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.source_settings import SourceSettings

COLUMNS: Final = (
    "topic", "body", "keys", "tags", "properties", "born_timestamp", "store_timestamp", "broker",
    "queue", "queue_offset",
)  # fmt: skip
"""The columns of every message, in their order."""
_NAME: Final = re.compile(r"[%|a-zA-Z0-9._-]{1,255}")
_SYSTEM: Final = re.compile(
    r"%(RETRY|DLQ)%.*|(?i:rmq_sys_).*|.*_REPLY_TOPIC|TBW102|SCHEDULE_TOPIC_XXXX|SELF_TEST_TOPIC"
    r"|OFFSET_MOVED_EVENT|TRANS_CHECK_MAX_TIME_TOPIC|BenchmarkTest"
)


def _addresses(name: str, given: str) -> tuple[str, ...]:
    """Addresses separated by semicolons, as RocketMQ's users write them, or by commas."""
    return tuple(part for part in (each.strip() for each in re.split("[;,]", given)) if part)


@dataclass(frozen=True)
class RocketmqSettings(SourceSettings):
    """``node`` in offsets is the broker's name, or of a Penstock node its ``host:http_port``."""

    format: ClassVar[str] = "rocketmq"
    usual_columns: ClassVar[tuple[str, ...]] = COLUMNS
    origin_columns: ClassVar[tuple[str, ...]] = ()

    group: str | None = option(
        "group",
        printable(255),
        None,
        "The group whose offsets follow the query, for `mqadmin consumerProgress` and dashboards; a"
        " Penstock node also keeps for it what is still to be read. Each query needs another one,"
        " in which nobody else consumes. With `namesrvAddr` and without it, none is committed;"
        " otherwise a query gets a random name.",
        only="stream",
    )
    namesrv: tuple[str, ...] = option(
        "namesrvAddr",
        _addresses,
        (),
        "Name servers, `host:port`, several separated by `;`: brokers of any kind are then read by"
        " their own protocol. In place of `nsqd_http_address` and `lookupd_http_address`, by which"
        " Penstock nodes are read faster.",
    )
    access_key: str = option(
        "accessKey", text, "", "The account at brokers with access rules (ACL); `namesrvAddr` only."
    )
    secret_key: str = option(
        "secretKey", text, "", "Its secret, with which requests are signed.", secret=True
    )

    @property
    def directory(self) -> tuple[str, tuple[str, ...]]:
        return ("name server", self.namesrv) if self.namesrv else super().directory

    @property
    def groups_hold(self) -> bool:
        return not self.namesrv

    @property
    def access(self) -> Access:
        plain = super().access
        given = {each.name: getattr(plain, each.name) for each in fields(plain)}
        given["dialect"] = self.format
        if not self.namesrv:
            return Access(**given)
        given["same_port"] = True
        account = Account(self.access_key, self.secret_key) if self.access_key else None
        return BrokerAccess(**given, account=account, group=self.group or "")

    def reads(self, topic: str) -> bool:
        """True if the options ask for a topic; for one of a broker's own only by its name."""
        return super().reads(topic) and not (self.finds_topics and is_system(topic))

    def _require_topic_name(self, topic: str) -> None:
        if not _NAME.fullmatch(topic):
            raise OptionError(
                f"topic name {topic!r} is invalid: a name is 1 to 255 letters, digits, underscores "
                "and dashes (a * alone is every topic)"
            )

    def _require_where(self) -> None:
        if self.include_origin:
            raise OptionError("includeOrigin is for dead letters of NSQ: see the column properties")
        if bool(self.access_key) != bool(self.secret_key):
            raise OptionError("accessKey and secretKey are of use together only")
        if not self.namesrv:
            if self.access_key:
                raise OptionError("accessKey is of use with namesrvAddr only")
            if not self.lookupd and not self.nodes:
                raise OptionError(
                    "say where to read: namesrvAddr (host:port of name servers, such as "
                    "127.0.0.1:9876), or nsqd_http_address or lookupd_http_address of Penstock "
                    "nodes"
                )
            return super()._require_where()
        if self.lookupd or self.nodes:
            raise OptionError("give namesrvAddr or addresses of Penstock nodes, not both")
        for address in self.namesrv:
            require_port("namesrvAddr", address, address, 9876)


def is_system(topic: str) -> bool:
    """True for a broker's own topics, retries and dead letters.

    Nobody means them who asks for every topic.
    """
    return _SYSTEM.fullmatch(topic) is not None
