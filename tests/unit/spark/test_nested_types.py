"""Types that are changed wherever they stand."""

from __future__ import annotations

import pyarrow as pa

from penstock.spark.nested_types import changed


def longer(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if kind == pa.int32() else kind


def test_types_without_others_are_changed_by_themselves() -> None:
    assert changed(pa.int32(), longer) == pa.int64()
    assert changed(pa.string(), longer) == pa.string()


def test_types_in_lists_structs_and_maps_are_changed_and_nothing_else() -> None:
    def nested(kind: pa.DataType) -> pa.DataType:
        inner = pa.struct([pa.field("a", kind, nullable=False), pa.field("b", pa.string())])
        return pa.map_(pa.string(), pa.list_(pa.field("element", inner, nullable=False)))

    found = changed(nested(pa.int32()), longer)
    assert found == nested(pa.int64())
    assert not found.item_type.value_field.nullable
    assert not found.item_type.value_type.field("a").nullable
