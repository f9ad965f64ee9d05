"""Options and what they may be."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.client.config import OPTIONS, Config


def test_options_are_set_from_texts_by_our_names_and_by_javas() -> None:
    config = Config().with_option("send-msg-timeout", "500ms").with_option("namesrvAddr", "a:1")
    assert (config.send_msg_timeout, config.namesrv_addr) == (0.5, "a:1")
    assert config.with_option("tls_enable").tls_enable


@pytest.mark.parametrize(
    ("name", "value"),
    [("sendMsgTimeout", "soon"), ("nothing", "1"), ("pull_batch_size", "2000"),
     ("serialization", "XML")],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError):
        Config().with_option(name, value)


def test_options_must_go_together() -> None:
    with pytest.raises(ConfigError, match="give both"):
        Config(access_key="me").validate()
    with pytest.raises(ConfigError, match="broker_suspend_max_time"):
        Config(consumer_pull_timeout=10.0).validate()
    with pytest.raises(ConfigError):
        Config(compress_level=10).validate()


def test_secrets_are_not_shown() -> None:
    assert "shh" not in repr(Config(access_key="me", secret_key="shh", security_token="shh"))


def test_every_option_has_a_help() -> None:
    assert all(each.help.endswith(".") for each in OPTIONS.values())
