from __future__ import annotations

import pickle

import pytest

from penstock.rocketmq.blocking import Account
from penstock.rocketmq.broker import names
from penstock.spark.errors import OptionError
from penstock.spark.options import table
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.decode import TYPES
from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.rocketmq.settings import COLUMNS, RocketmqSettings, is_system
from penstock.spark.settings import Settings
from tools.pages.spark_options import PAGE, split

NAMESRV = {"topic": "t", "namesrvaddr": "a:9876; b:9876"}


def test_name_servers_are_written_as_rocketmqs_users_do() -> None:
    settings = RocketmqSettings.parse(NAMESRV)
    assert settings.namesrv == ("a:9876", "b:9876")
    assert settings.directory == ("name server", ("a:9876", "b:9876"))
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_options_of_nsq_are_options_here() -> None:
    given = {**NAMESRV, "failondataloss": "false", "tls_root_ca_file": "ca.pem"}
    settings = RocketmqSettings.parse(given)
    assert not settings.fail_on_data_loss
    access = settings.access
    assert isinstance(access, BrokerAccess)
    assert access.tls
    assert access.same_port
    assert access.account is None


def test_an_account_is_not_shown() -> None:
    given = {**NAMESRV, "accesskey": "me", "secretkey": "hush-hush", "group": "g"}
    settings = RocketmqSettings.parse(given)
    access = settings.access
    assert isinstance(access, BrokerAccess)
    assert access.account == Account("me", "hush-hush")
    assert access.group == "g"
    assert "hush" not in repr(settings) + repr(access)


def test_a_penstock_node_is_asked_for_rocketmqs_view() -> None:
    settings = RocketmqSettings.parse({"topic": "t", "nsqd_http_address": "h:4151"})
    assert settings.access.dialect == "rocketmq"
    assert not isinstance(settings.access, BrokerAccess)
    assert settings.directory == ("nsqlookupd", ())


@pytest.mark.parametrize("topic", ["a.b", "%RETRY%group", "x" * 127])
def test_names_of_topics(topic: str) -> None:
    assert RocketmqSettings.parse({**NAMESRV, "topic": topic}).topics == (topic,)


def test_a_star_is_every_topic_but_the_brokers_own() -> None:
    settings = RocketmqSettings.parse({**NAMESRV, "topic": "*"})
    assert settings.reads("t")
    assert not settings.reads("%RETRY%g")
    assert RocketmqSettings.parse({**NAMESRV, "topic": "%DLQ%g"}).reads("%DLQ%g")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "t"}, "say where to read: namesrvAddr"),
        ({**NAMESRV, "nsqd_http_address": "h:1"}, "namesrvAddr or addresses of Penstock nodes, no"),
        ({"topic": "t", "namesrvaddr": "here"}, "namesrvAddr must be host:port, .*not 'here'"),
        ({**NAMESRV, "accesskey": "me"}, "accessKey and secretKey are of use together only"),
        (
            {"topic": "t", "nsqd_http_address": "h:1", "accesskey": "a", "secretkey": "b"},
            "accessKey is of use with namesrvAddr only",
        ),
        ({**NAMESRV, "includeorigin": "true"}, "includeOrigin is for dead letters of NSQ"),
        ({**NAMESRV, "columns": "offset"}, "columns must be some of topic, body, keys, tags, prop"),
        ({**NAMESRV, "topic": "a b"}, "topic name 'a b' is invalid: a name is 1 to 255"),
        ({**NAMESRV, "namesrv": "a:1"}, "rocketmq knows no option namesrv; did you mean namesrvAd"),
        ({"topic": "t", "nsqd_http_address": "h:1", "lookupd_http_address": "l:1"}, "one of the t"),
    ],
)
def test_wrong_options(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        RocketmqSettings.parse(given)


def test_the_documentation_lists_the_options_that_differ() -> None:
    _, shown, _ = split(PAGE.read_text(encoding="utf-8"), " of rocketmq")
    assert shown.strip() == table(RocketmqSettings, beside=Settings).strip(), "make pages"
    named = [line.split("`")[1] for line in shown.strip().splitlines()[2:]]
    assert named == ["group", "namesrvAddr", "accessKey", "secretKey"]


def test_the_columns_are_those_of_the_schema_and_of_the_decoder() -> None:
    assert SCHEMA.fieldNames() == list(COLUMNS) == list(TYPES)


@pytest.mark.parametrize(
    "topic", [*sorted(names.SYSTEM_TOPICS), names.retry_topic("g"), names.dead_letter_topic("g")]
)
def test_what_the_broker_has_for_itself(topic: str) -> None:
    assert is_system(topic)


@pytest.mark.parametrize("topic", ["orders", "RETRY", "my_rmq_sys_topic", "SELF_TEST_TOPIC2"])
def test_what_is_somebodys(topic: str) -> None:
    assert not is_system(topic)
