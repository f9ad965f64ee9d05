from typing import Any

class Publisher:
    def __init__(self, commits: Any, topics: Any) -> None: ...

class Commands: ...
class Requests: ...
class Sends: ...

def frames_of_mpub(
    data: bytes | bytearray | memoryview, max_msg_size: int, max_body_size: int
) -> Any: ...
def fields_of(data: bytes) -> dict[str, str] | None: ...
def stored_of(
    body: bytes,
    more: bytes,
    topic: bytes,
    born_host: bytes,
    store_host: bytes,
    queue: int,
    sys_flag: int,
    born_ms: int,
    times: int,
    base: int,
) -> Any: ...
