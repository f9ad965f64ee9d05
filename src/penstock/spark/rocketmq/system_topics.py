"""Topics that brokers have for themselves, which nobody means who asks for every topic."""

from __future__ import annotations

import re
from typing import Final

_OWN: Final = re.compile(
    r"%(RETRY|DLQ)%.*|(?i:rmq_sys_).*|.*_REPLY_TOPIC|TBW102|SCHEDULE_TOPIC_XXXX|SELF_TEST_TOPIC"
    r"|OFFSET_MOVED_EVENT|TRANS_CHECK_MAX_TIME_TOPIC|BenchmarkTest"
)


def is_system(topic: str) -> bool:
    """True for a broker's own topics, retries and dead letters."""
    return _OWN.fullmatch(topic) is not None
