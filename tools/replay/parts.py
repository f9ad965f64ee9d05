"""The little language of the recorded nsqd samples: bytes to send, texts to expect.

Bytes are lists of parts (a text, `{"hex"}`, `{"i32"}`, `{"sized"}`, `{"repeat", "n"}`, `{"id"}`);
expected texts hold placeholders such as `<int>` or `{http}`, which match any value of their kind.
"""

from __future__ import annotations

import re
import struct
from typing import Any

ABSENT = "<absent>"

_VOLATILE = {
    "version": r"\d+\.\d+\.\d+[-+.\w]*",
    "go": r"[^)\n]+",
    "int": r"-?\d+",
    "number": r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?",
    "dur": r"(?:\d+(?:\.\d+)?(?:h|m|s|ms|µs|us|ns))+",
    "duration": r"(?:\d+(?:\.\d+)?(?:h|m|s|ms|µs|us|ns))+",
    "rfc3339": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)",
    "date": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT",
    "hostname": r"[^\"\n]+",
    "port": r"\d+",
    "padded": r" *",
    "data-path": r"[^\"\n]+?",
    "go specific": r"(?s:.*)",
}
_PLACEHOLDER = re.compile(r"<(id:\w+|" + "|".join(_VOLATILE) + r")>|\{(\w+)\}")

_PIECES = re.compile(r'(\{"client_id".*?_mutual":(?:true|false)\}|\n)')


class Names:
    """What the placeholders of one case stand for: ports of its daemon, ids of its messages."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.ids: dict[str, bytes] = {}

    def fill(self, text: str) -> str:
        """The text with `{tcp}` and the like replaced; unknown names in braces stay."""
        return re.sub(r"\{(\w+)\}", lambda m: self.values.get(m[1], m[0]), text)

    def pattern(self, expected: str) -> re.Pattern[str]:
        """The expected text as a pattern to be matched as a whole."""
        words = []
        position = 0
        for match in _PLACEHOLDER.finditer(expected):
            words.append(re.escape(expected[position : match.start()]))
            words.append(self._one(match))
            position = match.end()
        words.append(re.escape(expected[position:]))
        return re.compile("".join(words))

    def _one(self, match: re.Match[str]) -> str:
        if match[2] is not None:
            return re.escape(self.values.get(match[2], match[0]))
        if match[1].startswith("id:"):
            return re.escape(self.ids[match[1][3:]].decode())
        return _VOLATILE[match[1]]

    def matches(self, expected: str, actual: str) -> bool:
        """Whether the whole text is as expected."""
        return self.pattern(expected).fullmatch(actual) is not None

    def matches_unordered(self, expected: str, actual: str) -> bool:
        """The same where lines, and clients in JSON, may come in another order."""
        patterns = [self.pattern(piece) for piece in _PIECES.split(expected)]
        for piece in _PIECES.split(actual):
            found = next((pattern for pattern in patterns if pattern.fullmatch(piece)), None)
            if found is None:
                return False
            patterns.remove(found)
        return not patterns

    def encode(self, parts: Any) -> bytes:
        """The bytes these parts stand for."""
        if isinstance(parts, str):
            return self.fill(parts).encode()
        if isinstance(parts, list):
            return b"".join(self.encode(part) for part in parts)
        if "hex" in parts:
            return bytes.fromhex(parts["hex"])
        if "i32" in parts:
            return struct.pack(">i", parts["i32"])
        if "sized" in parts:
            body = self.encode(parts["sized"])
            return struct.pack(">i", len(body)) + body
        if "repeat" in parts:
            return self.encode(parts["repeat"]) * int(parts["n"])
        return self.ids[parts["id"]]


def pick(value: Any, path: str) -> Any:
    """The value at a path such as `topics[0].depth`; ABSENT where there is none."""
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            value = value[key] if key else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return value


def shorten(value: object, limit: int = 300) -> str:
    """A value for a report, cut in its middle when it is long."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"
