"""Parameters of the query that an endpoint's handler reads, found in its source.

From the handler every function and class of the package is followed that it names, and each place
is taken where a query is asked for a name: ``query.get("topic")``, ``number(query, "limit", ...)``,
``query.topic()``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final

_WHOLE: Final = {"topic": {"topic"}, "topic_and_channel": {"topic", "channel"}}
"""The names that a method of the query reads by itself."""
_NOTHING: Final = object()
_OF_REQUESTS: Final = re.compile("query|request", re.IGNORECASE)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COUNTING: Final = (ast.Call, ast.Name, ast.Attribute, ast.comprehension)


def read_by(handler: Callable[..., Any]) -> set[str]:
    """The names that the handler, or what it calls, asks a query for."""
    found: set[str] = set()
    seen: set[object] = set()
    left: list[Any] = [handler]
    while left:
        for function, owner in _functions(left.pop()):
            if (key := (function.__qualname__, function.__module__, id(owner))) not in seen:
                seen.add(key)
                nodes = _nodes(function)
                found |= _asked(nodes, function)
                left += _named(nodes, function, owner)
    return found


def _functions(thing: Any) -> Iterator[tuple[FunctionType, object]]:
    """The package's functions behind something that can be called, each with its instance."""
    match thing:
        case partial():
            yield from _functions(thing.func)
            for each in thing.args:
                yield from _functions(each)
        case MethodType():
            yield from ((each, thing.__self__) for each, _ in _functions(thing.__func__))
        case FunctionType():
            function = inspect.unwrap(thing)
            if function.__module__.startswith("penstock."):
                yield function, None
                for cell in function.__closure__ or ():
                    yield from _functions(cell.cell_contents)
        case type() if thing.__module__.startswith("penstock."):
            yield from ((each, None) for each in vars(thing).values() if _is_own(each))


def _is_own(thing: Any) -> bool:
    return isinstance(thing, FunctionType) and thing.__module__.startswith("penstock.")


def _nodes(function: FunctionType) -> list[ast.AST]:
    code = function.__code__
    # Methods that a decorator of the standard library made are in no file, others of no interest.
    return _functions_of(code.co_filename).get(code.co_firstlineno, [])


@cache
def _functions_of(file: str) -> dict[int, list[ast.AST]]:
    """What counts in the functions of a file, by their first line, which may be a decorator's.

    A file that has no word of requests and queries can hand none on.
    """
    source = Path(file).read_text(encoding="utf-8") if Path(file).exists() else ""
    if not _OF_REQUESTS.search(source):
        return {}
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, _FUNCTIONS))
    return {
        min(each.lineno for each in (node, *getattr(node, "decorator_list", ()))): [
            each for each in ast.walk(node) if isinstance(each, _COUNTING)
        ]
        for node in functions
    }


def _asked(nodes: Sequence[ast.AST], function: FunctionType) -> set[str]:
    found: set[str] = set()
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        asks = isinstance(call.func, ast.Attribute) and _is_query(call.func.value)
        if asks and method in _WHOLE:
            found |= _WHOLE[method]
        elif asks or any(map(_is_query, call.args)):
            found |= {name for each in call.args for name in _names(each, nodes, function)}
    return found


def _is_query(node: ast.AST) -> bool:
    """True for ``query``, ``request.query`` and ``Query.parse(...)``."""
    match node:
        case ast.Name("query" | "given") | ast.Attribute(attr="query"):
            return True
        case ast.Call(ast.Attribute(ast.Name("Query"), "parse")):
            return True
    return False


def _names(node: ast.AST, nodes: Sequence[ast.AST], function: FunctionType) -> Iterator[str]:
    """A name in quotation marks, or those that a loop's variable goes through."""
    match node:
        case ast.Constant(str(text)) if text.isidentifier():
            yield text
        case ast.Name(variable):
            for loop in nodes:
                match loop:
                    case ast.comprehension(ast.Name(name), source) if name == variable:
                        yield from _texts(source, function)


def _texts(node: ast.AST, function: FunctionType) -> Sequence[str]:
    """The texts of a tuple that stands there, or is named."""
    if isinstance(node, ast.Tuple):
        return [each.value for each in node.elts if isinstance(each, ast.Constant)]
    found = _value(node, function.__globals__)
    return found if isinstance(found, tuple) else ()


def _named(nodes: Sequence[ast.AST], function: FunctionType, owner: object) -> Iterator[Any]:
    """The functions and classes that are named in a function."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    known = {name: cell.cell_contents for name, cell in cells.items()}
    scope = ChainMap({"self": owner}, known, function.__globals__)
    for node in nodes:
        found = _value(node, scope)
        if isinstance(found, FunctionType | MethodType | type | partial):
            yield found


def _value(node: ast.AST, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(name):
            return scope.get(name, _NOTHING)
        case ast.Attribute(value, name):
            holder = _value(value, scope)
            return _NOTHING if holder is _NOTHING else getattr(holder, name, _NOTHING)
    return _NOTHING
