"""Filter expressions in RocketMQ's SQL92 dialect (RocketMQ spec 4.13): text in, a predicate out.

Names are properties of a message, which are texts; compared with a number, a property is read as
one. What cannot be compared, or is missing, is NULL, and only what is TRUE passes. Each operator
becomes a closure once, so that a message costs a few calls and nothing is parsed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias

from penstock.core.errors import PenstockError

Value: TypeAlias = str | int | float | bool | None
Properties: TypeAlias = Mapping[str, str]
Evaluator: TypeAlias = Callable[[Properties], Value]

LENGTH_MAX: Final = 16 * 1024
DEPTH_MAX: Final = 100

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[lLdDfF]?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<mark><>|>=|<=|=|>|<|\(|\)|,|-|\+)
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "CONTAINS", "STARTSWITH",
     "ENDSWITH")
)  # fmt: skip


class ExpressionError(PenstockError):
    """The expression is not of the language; the text says where and what was expected."""


class Expression:
    """A parsed expression. Raises ExpressionError when made of a text that is not one."""

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise ExpressionError(f"an expression of more than {LENGTH_MAX} characters")
        self.text = text
        self._evaluate = _Parser(text).parse()

    def matches(self, properties: Properties) -> bool:
        """True if a message with these properties passes."""
        # Null is not a match: a property that is missing filters out (RocketMQ spec 4.13).
        return self._evaluate(properties) is True


class _Parser:
    """Recursive descent: OR, AND, NOT, then comparisons."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._depth = 0
        self._next()

    def parse(self) -> Evaluator:
        found = self._either()
        if self._kind != "end":
            self._fail("the end")
        return _logical(found)

    # --- tokens --------------------------------------------------------------------------------

    def _next(self) -> None:
        token = _TOKEN.match(self._text, self._end)
        self._start = self._end
        if token is None:
            self._fail("a name, a number, a text or an operator")
        self._kind = str(token.lastgroup)
        self._word = token[self._kind]
        self._start = token.start(self._kind)
        self._end = token.end()
        if self._kind == "name" and self._word.upper() in _KEYWORDS:
            self._kind, self._word = "keyword", self._word.upper()

    def _take(self, *words: str) -> str | None:
        """The current word, if it is one of these; then the next one is current."""
        if self._kind in ("keyword", "mark") and self._word in words:
            word = self._word
            self._next()
            return word
        return None

    def _need(self, word: str) -> None:
        if self._take(word) is None:
            self._fail(word)

    def _fail(self, expected: str) -> NoReturn:
        found = self._text[self._start :].strip()[:20] or "the end"
        raise ExpressionError(
            f"expected {expected} at character {self._start + 1} of the expression, found {found!r}"
        )

    # --- logic ---------------------------------------------------------------------------------

    def _either(self) -> Evaluator:
        self._depth += 1
        # The parser calls itself for each bracket, and so does what it makes for each message.
        if self._depth > DEPTH_MAX:
            raise ExpressionError(f"an expression nested more than {DEPTH_MAX} deep")
        parts = [self._both()]
        while self._take("OR"):
            parts.append(self._both())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else _or(parts)

    def _both(self) -> Evaluator:
        parts = [self._negated()]
        while self._take("AND"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else _and(parts)

    def _negated(self) -> Evaluator:
        negations = 0
        while self._take("NOT"):
            negations += 1
        found = self._comparison()
        return _not(_logical(found)) if negations % 2 else found

    # --- comparisons ---------------------------------------------------------------------------

    def _comparison(self) -> Evaluator:
        left = self._operand()
        if (sign := self._take("=", "<>", ">", ">=", "<", "<=")) is not None:
            if sign in ("=", "<>"):
                return _equal(left, self._operand(), sign == "=")
            return _ordered(sign, self._ordinary(left), self._ordinary(self._operand()))
        if self._take("IS"):
            negated = self._take("NOT") is not None
            self._need("NULL")
            return _is_null(left, negated)
        negated = self._take("NOT") is not None
        if self._take("BETWEEN"):
            found = self._between(left)
        elif self._take("IN"):
            found = self._in(left)
        elif (word := self._take("CONTAINS", "STARTSWITH", "ENDSWITH")) is not None:
            found = _like(word, left, self._string())
        elif negated:
            self._fail("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        else:
            return left
        return _not(found) if negated else found

    def _between(self, left: Evaluator) -> Evaluator:
        low = self._ordinary(self._operand())
        self._need("AND")
        high = self._ordinary(self._operand())
        return _and([_ordered(">=", left, low), _ordered("<=", left, high)])

    def _in(self, left: Evaluator) -> Evaluator:
        self._need("(")
        texts = {self._string()}
        while self._take(","):
            texts.add(self._string())
        self._need(")")
        return _is_in(left, frozenset(texts))

    def _string(self) -> str:
        if self._kind != "text":
            self._fail("a text in single quotes")
        text = self._word[1:-1].replace("''", "'")
        self._next()
        return text

    def _ordinary(self, operand: Evaluator) -> Evaluator:
        """An operand that has an order: no text and no boolean, unless it is a property."""
        if isinstance(operand, _Constant) and isinstance(operand.value, str | bool):
            self._fail("a number or a property, texts and booleans have no order,")
        return operand

    def _operand(self) -> Evaluator:
        if self._take("("):
            found = self._either()
            self._need(")")
            return found
        if (sign := self._take("-", "+")) is not None:
            if self._kind != "number":
                self._fail("a number")
            return _Constant(-self._number() if sign == "-" else self._number())
        if self._kind == "number":
            return _Constant(self._number())
        if self._kind == "text":
            return _Constant(self._string())
        if (word := self._take("TRUE", "FALSE", "NULL")) is not None:
            return _Constant({"TRUE": True, "FALSE": False}.get(word))
        if self._kind != "name":
            self._fail("a property, a number, a text, TRUE, FALSE or (")
        name = self._word
        self._next()
        return lambda properties: properties.get(name)

    def _number(self) -> int | float:
        word = self._word.rstrip("lLdDfF")
        self._next()
        try:
            return int(word)
        except ValueError:
            return float(word)


class _Constant:
    """An operand that is the same for every message."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, properties: Properties) -> Value:
        return self.value


# --- values ---------------------------------------------------------------------------------------


def _number_of(value: Value) -> int | float | None:
    if isinstance(value, bool) or value is None:
        return None
    if not isinstance(value, str):
        return value
    try:
        # An int where it is one: as a float, large ids would be equal to their neighbours.
        return int(value) if value.lstrip("+-").isdecimal() else float(value)
    except ValueError:
        return None


def _logical(operand: Evaluator) -> Evaluator:
    """TRUE or FALSE, also of a property that says so; anything else is NULL."""

    def evaluate(properties: Properties) -> Value:
        value = operand(properties)
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None

    return evaluate


def _same(left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        return str(left).lower() == str(right).lower()
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    first, second = _number_of(left), _number_of(right)
    return None if first is None or second is None else first == second


# --- operators ------------------------------------------------------------------------------------


def _and(parts: list[Evaluator]) -> Evaluator:
    parts = [_logical(part) for part in parts]

    def evaluate(properties: Properties) -> Value:
        found: Value = True
        for part in parts:
            value = part(properties)
            if value is False:
                return False
            if value is None:
                found = None
        return found

    return evaluate


def _or(parts: list[Evaluator]) -> Evaluator:
    parts = [_logical(part) for part in parts]

    def evaluate(properties: Properties) -> Value:
        found: Value = False
        for part in parts:
            value = part(properties)
            if value is True:
                return True
            if value is None:
                found = None
        return found

    return evaluate


def _not(part: Evaluator) -> Evaluator:
    def evaluate(properties: Properties) -> Value:
        value = part(properties)
        return None if value is None else not value

    return evaluate


def _equal(left: Evaluator, right: Evaluator, wanted: bool) -> Evaluator:
    def evaluate(properties: Properties) -> Value:
        same = _same(left(properties), right(properties))
        return None if same is None else same is wanted

    return evaluate


def _ordered(sign: str, left: Evaluator, right: Evaluator) -> Evaluator:
    or_equal, greater = sign.endswith("="), sign.startswith(">")

    def evaluate(properties: Properties) -> Value:
        first, second = _number_of(left(properties)), _number_of(right(properties))
        if first is None or second is None:
            return None
        if first == second:
            return or_equal
        return (first > second) is greater

    return evaluate


def _is_null(operand: Evaluator, negated: bool) -> Evaluator:
    return lambda properties: (operand(properties) is None) is not negated


def _is_in(operand: Evaluator, texts: frozenset[str]) -> Evaluator:
    def evaluate(properties: Properties) -> Value:
        value = operand(properties)
        return None if value is None else str(value) in texts

    return evaluate


def _like(word: str, operand: Evaluator, text: str) -> Evaluator:
    def evaluate(properties: Properties) -> Value:
        value = operand(properties)
        if not isinstance(value, str):
            return None
        if word == "CONTAINS":
            return text in value
        return value.startswith(text) if word == "STARTSWITH" else value.endswith(text)

    return evaluate
