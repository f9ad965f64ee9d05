"""Options of the sink."""

from __future__ import annotations

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.options import table
from penstock.spark.sink.settings import Settings
from tools.pages.spark_options import PAGE, SINK, split

NODE = {"nsqd_http_address": "h:1"}
EXACT = {**NODE, "exactlyOnce": "true"}


def test_options_as_spark_hands_them_over() -> None:
    given = {"checkpointlocation": "/c", "queryname": "q", "path": "t", "EXACTLYONCE": "True"}
    settings = Settings.parse(NODE | given | {"writerid": "w", "writerbatch": "0"})
    assert (settings.topic, settings.exactly_once) == ("t", True)
    assert (settings.writer, settings.writer_batch) == ("w", 0)
    assert Settings.parse({**NODE, "path": "p", "Topic": "t"}).topic == "t"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**NODE, "topic": "a,b"}, "topic name 'a,b' is invalid"),
        ({**EXACT, "writerId": "w" * 129}, "writerId has more than 128 characters"),
        ({**EXACT, "writerBatch": "-1"}, "writerBatch must be a whole number from 0 to 922337203"),
        ({**EXACT, "writerBatch": "9" * 19}, f"to {2**63 - 1}, not '{'9' * 19}'"),
        ({**EXACT, "writerBatch": "9" * 5000}, f"to {2**63 - 1}, not '9999"),
        ({**NODE, "startingOffsets": "latest"}, "knows no option startingoffsets"),
        ({}, "say where the nodes are"),
    ],
)
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.parse(options)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("options", "streaming", "said"),
    [
        (EXACT, True, ""),
        (NODE, False, ""),
        ({**EXACT, "writerId": "w", "writerBatch": "0"}, False, ""),
        ({**EXACT, "writerId": "w"}, True, "for batch writes: a stream has its query id"),
        ({**EXACT, "writerBatch": "1"}, False, "needs writerId and writerBatch"),
        ({**EXACT, "writerId": "w"}, False, "needs writerId and writerBatch"),
        (EXACT, False, "needs writerId and writerBatch"),
        ({**NODE, "writerBatch": "0"}, False, "of no use without exactlyOnce=true"),
    ],
)
def test_the_name_of_a_writer(options: dict[str, str], streaming: bool, said: str) -> None:
    settings = Settings.parse(options)
    if said:
        with pytest.raises(OptionError, match=said):
            settings.require_writer(streaming=streaming)
    else:
        settings.require_writer(streaming=streaming)


def test_the_documentation_has_the_options_that_there_are() -> None:
    """`make pages` writes the table."""
    _, written, _ = split(PAGE.read_text(encoding="utf-8"), SINK)
    assert written.strip() == table(Settings).strip()
