from __future__ import annotations

import pytest

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.nsq_to_nsq.options import parse_options

GOOD = ["--topic=t", "--nsqd-tcp-address=h:1", "--destination-nsqd-tcp-address=h:2"]


def test_the_flags() -> None:
    flags = parse_options(
        [*GOOD, "--topic=u", "--whitelist-json-field=a", "--whitelist-json-field=b"]
    )
    assert flags.topics == ("t", "u")
    assert (flags.channel, flags.destination_topic) == ("nsq_to_nsq", "")
    assert (flags.mode, flags.status_every, flags.max_in_flight) == ("hostpool", 250, 200)
    assert flags.kept_fields == ("a", "b")
    assert flags.is_mode_known
    assert not parse_options([*GOOD, "--mode=foo"]).is_mode_known


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "--topic and --channel are required"),
        (["--topic=t", "--channel="], "--topic and --channel are required"),
        (["--topic=t", "--topic=bad!", "--channel=bad!"], "--topic is invalid"),
        (["--topic=t", "--destination-topic=bad!"], "--destination-topic is invalid"),
        (["--topic=t", "--channel=bad!"], "--channel is invalid"),
        (["--topic=t"], "--nsqd-tcp-address or --lookupd-http-address required"),
        (
            [*GOOD, "--lookupd-http-address=h:3"],
            "use --nsqd-tcp-address or --lookupd-http-address not both",
        ),
        (GOOD[:2], "--destination-nsqd-tcp-address required"),
    ],
)
def test_checks_in_upstreams_order(argv: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_options(argv)
    assert str(caught.value) == text
