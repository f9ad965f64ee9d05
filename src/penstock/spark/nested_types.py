"""Types of Arrow columns, changed wherever they stand in lists, structs and maps."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def changed(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with each type in it that holds no other one changed."""

    def field(given: pa.Field) -> pa.Field:
        return given.with_type(changed(given.type, change))

    if pa.types.is_list(kind):
        return pa.list_(field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([field(kind.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(field(kind.key_field), field(kind.item_field))
    return change(kind)
