"""The options of the sink ``format("rocketmq")``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from penstock.spark.cluster_options import ConnectionOptions
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import option, parse, printable, text, texts
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.sink.sink_settings import OF_SPARK, WriteOptions
from penstock.spark.sink.sink_settings import SinkSettings as Staging

TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
"""The names of topics that the sink accepts."""


@dataclass(frozen=True)
class RocketmqSinkSettings(ConnectionOptions, WriteOptions):
    """The options of a writer."""

    namesrv: str = option(
        "namesrvAddr", text, "", "Name servers, `host:port`, several separated by `;`."
    )
    nodes: tuple[str, ...] = option(
        "nsqd_http_address",
        texts,
        (),
        "With `exactlyOnce`, in place of name servers: the HTTP ports of Penstock brokers"
        " (`nsqHttpAddress`), `host:port`, several separated by commas.",
    )
    access_key: str = option("accessKey", text, "", "The account at brokers with access rules.")
    secret_key: str = option(
        "secretKey", text, "", "Its secret, with which requests are signed.", secret=True
    )
    producer_group: str = option(
        "producerGroup",
        printable(255),
        "spark",
        "The group that brokers see as the producer's.",
    )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> RocketmqSinkSettings:
        """Settings from Spark's options. Raises OptionError."""
        settings = cls(**parse(cls, cls.given(options), OF_SPARK, format="rocketmq"))
        settings.require_tls()
        if settings.topic is not None and not TOPIC.fullmatch(settings.topic):
            raise OptionError(invalid_topic(settings.topic))
        if settings.exactly_once:
            settings._require_nodes()
            return settings
        if settings.nodes:
            raise OptionError(
                "nsqd_http_address is for exactlyOnce=true; at least once, brokers are found by "
                "namesrvAddr"
            )
        if not settings.namesrv:
            raise OptionError(
                "say where to write: namesrvAddr, host:port of name servers, such as 127.0.0.1:9876"
            )
        settings.directory()
        return settings

    def _require_nodes(self) -> None:
        if not self.nodes:
            raise OptionError(
                "exactlyOnce=true needs Penstock brokers, by their HTTP ports in nsqd_http_address "
                "(mqbroker's nsqHttpAddress): RocketMQ's own protocol, the only one of Java's "
                "brokers, cannot repeat a send without doubling it. Leave exactlyOnce out to write "
                "at least once by namesrvAddr"
            )
        if self.namesrv or self.access_key:
            raise OptionError(
                "with exactlyOnce=true brokers are written to by nsqd_http_address alone: leave "
                "namesrvAddr and accessKey out"
            )
        staging = self.staging()
        staging.require_names()
        staging.require_nodes()

    def staging(self) -> Staging:
        """The options by which rows are staged, exactly once."""
        shared = [*fields(ConnectionOptions), *fields(WriteOptions)]
        given = {each.name: getattr(self, each.name) for each in shared}
        return Staging(**given | {"topic": None, "nodes": self.nodes})

    def directory(self) -> RocketmqSettings:
        """The options of a source, which finds brokers and asks them. Raises OptionError."""
        given = {
            "topic": self.topic or "*",
            "namesrvAddr": self.namesrv,
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "timeout": str(int(self.timeout_s)),
            "tls_v1": str(bool(self.tls_v1 or self.implies_tls)).lower(),
            "tls_root_ca_file": self.tls_root_ca_file,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
            "tls_server_name": self.tls_server_name,
            "tls_insecure_skip_verify": str(self.tls_insecure_skip_verify).lower(),
        }
        return RocketmqSettings.parse({name: value for name, value in given.items() if value})


def invalid_topic(name: str) -> str:
    """The sentence for a name that no topic can have."""
    return (
        f"topic name {name[:200]!r} is invalid: a name is 1 to 127 letters, digits, underscores "
        "and dashes"
    )
