"""The options of ``mode=channel``."""

from __future__ import annotations

import pytest

from penstock.spark.channel.settings import COLUMNS, ChannelSettings
from penstock.spark.errors import OptionError
from penstock.spark.options import table
from penstock.spark.settings import is_channel
from tools.pages.spark_options import CHANNEL, PAGE, split

GIVEN = {
    "mode": "channel", "topic": "t", "channel": "c", "stagingLocation": "/shared/t",
    "nsqd_tcp_address": "h:4150",
}  # fmt: skip


def test_the_page_has_the_options_there_are() -> None:
    assert split(PAGE.read_text(), CHANNEL)[1].strip() == table(ChannelSettings).strip()


def test_a_consumer_gives_no_message_up_and_has_the_options_of_tls() -> None:
    settings = ChannelSettings.parse(
        GIVEN | {"tls_root_ca_file": "/ca.pem", "tls_server_name": "n", "auth_secret": "s"}
    )
    config = settings.client_config()
    assert (config.max_attempts, config.max_in_flight) == (0, 2500)
    assert (config.tls_v1, config.tls_root_ca_file) == (True, "/ca.pem")
    assert (config.tls_server_name, config.auth_secret) == ("n", "s")
    assert "secret" not in repr(settings).replace("auth_secret", "")


def test_names_of_kafkas_users() -> None:
    renamed = {key: value for key, value in GIVEN.items() if key != "topic"}
    settings = ChannelSettings.parse(renamed | {"subscribe": "t", "maxOffsetsPerTrigger": "5"})
    assert (settings.topic, settings.records_max) == ("t", 5)


def test_a_folder_may_be_a_uri_of_the_file_system() -> None:
    for given in ("file:///shared/t", "file:/shared/t/", " /shared/t "):
        assert ChannelSettings.parse(GIVEN | {"stagingLocation": given}).staging == "/shared/t"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, 'the option "topic" is missing'),
        ({"channel": ""}, 'the option "channel" is missing'),
        ({"topic": "a,b"}, "mode=channel reads one topic"),
        ({"stagingLocation": "s3://b/t"}, "must be an absolute path of a folder that driver and"),
        ({"stagingLocation": "staging"}, "must be an absolute path"),
        ({"nsqd_tcp_address": "h"}, "must be host:port"),
        ({"lookupd_http_address": "l:4161"}, "one of the two"),
        ({"nsqd_http_address": "h:4151"}, "did you mean"),
        ({"startingOffsets": "latest"}, "format nsq with mode=channel knows no option startingO"),
        ({"columns": "body,offset"}, "columns must be some of topic, body, id"),
        ({"maxFileBytes": "2000000000"}, "maxFileBytes is more than 1073741824"),
        ({"tls_key": "k"}, "of no use without tls_cert"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        ChannelSettings.parse(GIVEN | options)


def test_columns_and_mode_are_known_before_the_rest_is() -> None:
    assert ChannelSettings.columns_in({"MODE": "channel"}) == COLUMNS
    assert ChannelSettings.columns_in({"Columns": "body, id"}) == ("body", "id")
    assert is_channel({"Mode": "channel"})
    assert not is_channel({"mode": "log", "channel": "channel"})


def test_a_folder_is_needed() -> None:
    with pytest.raises(OptionError, match='the option "stagingLocation" is missing'):
        ChannelSettings.parse({key: value for key, value in GIVEN.items() if key[0] != "s"})
