"""Small damage to good bytes, for runs without a fuzzing engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

Mutation = Callable[[bytes, Random], bytes]


def mutations(seeds: list[bytes], words: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """The seeds as they are, then ``count`` inputs made of them; the same for the same ``seed``."""
    yield from seeds
    yield b""
    dice = Random(seed)
    changes = [_flip, _drop, _double, _cut, _noise]
    for _ in range(count):
        data = dice.choice(seeds)
        for _ in range(dice.choice((1, 1, 2, 3, 6))):
            match dice.randrange(8):
                case 0 | 1 if words:
                    data = _insert(data, dice.choice(words), dice)
                case 2:
                    data = _splice(data, dice.choice(seeds), dice)
                case _:
                    data = dice.choice(changes)(data, dice)
        yield data


def _place(data: bytes, dice: Random) -> int:
    return dice.randrange(len(data) + 1)


def _span(data: bytes, dice: Random) -> tuple[int, int]:
    start = _place(data, dice)
    return start, min(len(data), start + dice.choice((1, 2, 4, 8, 40)))


def _flip(data: bytes, dice: Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    changed = dice.choice((0, 1, 255, 128, data[at] ^ (1 << dice.randrange(8)), data[at] + 1))
    return data[:at] + bytes([changed & 255]) + data[at + 1 :]


def _drop(data: bytes, dice: Random) -> bytes:
    start, end = _span(data, dice)
    return data[:start] + data[end:]


def _double(data: bytes, dice: Random) -> bytes:
    start, end = _span(data, dice)
    return data[:end] + data[start:end] * dice.choice((1, 1, 20)) + data[end:]


def _cut(data: bytes, dice: Random) -> bytes:
    return data[: _place(data, dice)]


def _noise(data: bytes, dice: Random) -> bytes:
    return _insert(data, dice.randbytes(dice.choice((1, 4, 16))), dice)


def _insert(data: bytes, word: bytes, dice: Random) -> bytes:
    at = _place(data, dice)
    replaced = dice.choice((0, len(word)))
    return data[:at] + word + data[at + replaced :]


def _splice(data: bytes, other: bytes, dice: Random) -> bytes:
    return data[: _place(data, dice)] + other[_place(other, dice) :]
