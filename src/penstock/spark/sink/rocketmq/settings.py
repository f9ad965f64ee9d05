"""The options of the sink ``format("rocketmq")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.errors import OptionError
from penstock.spark.options import option, parse, positive, text
from penstock.spark.reach import Asking
from penstock.spark.rocketmq.settings import RocketmqSettings
from penstock.spark.sink.settings import OF_SPARK


@dataclass(frozen=True)
class Settings(Asking):
    """The options of a writer."""

    topic: str | None = option(
        "topic", text, None,
        "The topic to write to. It goes before a column `topic`; `save(\"t\")` and `start(\"t\")`"
        " name it as well.",
    )  # fmt: skip
    namesrv: str = option(
        "namesrvAddr", text, "", "Name servers, `host:port`, several separated by `;`."
    )
    access_key: str = option("accessKey", text, "", "The account at brokers with access rules.")
    secret_key: str = option(
        "secretKey", text, "", "Its secret, with which requests are signed.", secret=True
    )
    producer_group: str = option(
        "producerGroup", text, "spark", "The producers' group that brokers are told.", shown="spark"
    )
    request_bytes: int = option(
        "requestBytes", positive, 1 << 20,
        "Bytes of one batch of messages, about; a larger message has one for itself.",
        shown="1048576",
    )  # fmt: skip
    in_flight: int = option(
        "requestsInFlight", positive, 2,
        "Batches of a task at a time. With 1 the rows of a partition stay in order in a queue.",
        shown="2",
    )  # fmt: skip

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Settings:
        """Settings from Spark's options. Raises OptionError."""
        given = {key.lower(): value for key, value in options.items()}
        if "path" in given:
            given.setdefault("topic", given["path"])
        settings = cls(**parse(cls, given, OF_SPARK, format="rocketmq"))
        settings.require_tls()
        if not settings.namesrv:
            raise OptionError(
                "say where to write: namesrvAddr, host:port of name servers, such as 127.0.0.1:9876"
            )
        settings.directory()
        return settings

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
