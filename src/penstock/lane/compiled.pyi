from collections.abc import Mapping

from penstock.broker.topic import Topic
from penstock.net.http.server.intake import ReaderIntake
from penstock.node.commits import Commits
from penstock.nsq.nsqd.tcp.intake import ParserIntake
from penstock.nsq.protocol.bodies import Bodies

class Publisher:
    def __init__(self, commits: Commits, topics: Mapping[str, Topic]) -> None: ...

class Commands(ParserIntake): ...
class Requests(ReaderIntake): ...

def frames_of_mpub(
    data: bytes | bytearray | memoryview, max_msg_size: int, max_body_size: int
) -> Bodies | None: ...
