"""The parts of msgspec and xxhash that readers need, which are compiled and a reader may lack.

Every broker has both. An executor of Spark may have neither, as neither goes into a zip of Python
modules: there a batch is a plain object, and its checksum cannot be computed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

CHECKSUMS: Final = find_spec("xxhash") is not None
"""True if checksums can be computed in this process."""
MSGSPEC: Final = find_spec("msgspec") is not None
"""True if JSON is read and written by compiled code in this process."""

if TYPE_CHECKING:
    from msgspec import Struct as Struct
    from xxhash import xxh3_64_intdigest as xxh3_64_intdigest

    def encode_json(value: Any) -> bytes: ...

    def decode_json(data: bytes | memoryview) -> Any: ...

else:
    if MSGSPEC:
        from msgspec import Struct
        from msgspec.json import Decoder, Encoder

        encode_json = Encoder().encode
        decode_json = Decoder(strict=False).decode
    else:

        class Struct:
            """A base whose subclasses become dataclasses; msgspec's options change only speed."""

            def __init_subclass__(cls, **_: Any) -> None:
                dataclass(eq=False)(cls)

        def encode_json(value: Any) -> bytes:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

        def decode_json(data: bytes | memoryview) -> Any:
            return json.loads(bytes(data))

    if CHECKSUMS:
        from xxhash import xxh3_64_intdigest
    else:

        def xxh3_64_intdigest(_: bytes) -> int:
            raise ModuleNotFoundError("the checksum of a batch needs the package xxhash")
