"""Options of ``format("nsq")``."""

from __future__ import annotations

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.settings import Settings


def test_names_are_case_insensitive_and_addresses_may_be_urls() -> None:
    settings = Settings.parse(
        {
            "Topic": "a, b",
            "LOOKUPD_HTTP_ADDRESS": "http://h:4161/, i:4161",
            "maxRecordsPerTrigger": "5",
            "failOnDataLoss": "False",
        }
    )
    assert settings.topics == ("a", "b")
    assert settings.lookupd == ("h:4161", "i:4161")
    assert settings.records_max == 5
    assert not settings.fail_on_data_loss
    assert settings.partitions_min == 0
    assert settings.starting is None
    assert not settings.every_topic


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, 'the option "topic" is missing'),
        ({"topic": "t"}, "say where to read"),
        ({"topic": "t", "nsqd_http_address": "a:1", "lookupd_http_address": "b:1"}, "one of the"),
        ({"topic": "t", "nsqd_http_address": "a:1", "maxRecordsPerTrigger": "-4"}, "maxRecords"),
        ({"topic": "t", "nsqd_http_address": "a:1", "failOnDataLoss": "no"}, "true or false"),
        ({"topic": "t", "nsqd_http_address": "a:1", "mode": "channel"}, 'mode must be "log"'),
        ({"topic": "t", "nsqd_http_address": "a:1", "color": "red"}, "knows no option color"),
        ({"topic": "t", "nsqd_http_address": "a:1,nohost"},
         "nsqd_http_address must be host:port, such as 127.0.0.1:4151, not 'nohost'"),
        ({"topic": "t", "nsqd_http_address": "a:http"}, "not 'a:http'"),
        ({"topic": "t", "lookupd_http_address": "nohost/lookup"},
         "lookupd_http_address must be host:port, such as 127.0.0.1:4161, not 'nohost/lookup'"),
        ({"topic": "a,b!", "nsqd_http_address": "a:1"}, "topic name 'b!' is invalid"),
        ({"topic": "a,*", "nsqd_http_address": "a:1"}, "a * alone is every topic"),
    ],
)  # fmt: skip
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.parse(options)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "address", ["[::1]:4161", "h:4161/lookup?token=1", "https://h/lookup", "http://h:4161"]
)
def test_ways_to_give_nsqlookupd(address: str) -> None:
    settings = Settings.parse({"topic": "t#ephemeral", "lookupd_http_address": address})
    assert settings.lookupd == (address.removeprefix("http://"),)
