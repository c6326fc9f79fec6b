"""Any value that a message may have on the wire, made from its type alone."""

from functools import cache

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

Strategy = st.SearchStrategy[object]

_INTEGERS = st.sampled_from([0, 1, -1, 7, 2**31, -(2**63), 2**64 - 1]) | st.integers(-9, 99)
_FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.0, float("nan"), float("inf"), 1e308, 5e-324])
_TEXTS = st.sampled_from(["", "a", "sgd", "float32", "x" * 300, "a\n\x1b[2J", "\x00", "ß€"])
_BYTES = st.binary(max_size=8) | st.just(bytes(32))


def message_bytes(kinds: object) -> st.SearchStrategy[bytes]:
    """msgpack of any message of a union, as far as types say it."""
    return _values(inspect.type_info(kinds)).map(msgspec.msgpack.encode)


def damaged(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The same with a few bytes changed, left out or put in."""
    change = st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4))
    return st.builds(_damage, whole, st.lists(change, max_size=4))


def _damage(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for position, dropped, inserted in changes:
        at = position % (len(data) + 1)
        data = data[:at] + inserted + data[at + dropped :]
    return data


def _values(info: inspect.Type) -> Strategy:  # noqa: C901  (one line a type)
    match info:
        case inspect.UnionType():
            return st.one_of([_values(kind) for kind in info.types])
        case inspect.StructType():
            return _struct(info.cls)
        case inspect.NamedTupleType():
            return st.tuples(*(_values(field.type) for field in info.fields))
        case inspect.TupleType():
            return st.tuples(*(_values(kind) for kind in info.item_types))
        case inspect.VarTupleType() | inspect.ListType():
            return st.lists(_values(info.item_type), max_size=2)
        case inspect.DictType():
            keys, values = _values(info.key_type), _values(info.value_type)
            return st.dictionaries(keys.filter(_is_key), values, max_size=2)
        case inspect.LiteralType():
            return st.sampled_from(info.values)
        case inspect.IntType():
            return _INTEGERS
        case inspect.FloatType():
            return _FLOATS | _INTEGERS
        case inspect.StrType():
            return _TEXTS
        case inspect.BytesType():
            return _BYTES
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    raise AssertionError(f"no values are known for {info}")


@cache
def _struct(kind: type[msgspec.Struct]) -> Strategy:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    needed = {f.encode_name: _values(f.type) for f in info.fields if f.required}
    optional = {f.encode_name: _values(f.type) for f in info.fields if not f.required}
    if info.tag_field is not None:
        needed[info.tag_field] = st.just(info.tag)
    return st.fixed_dictionaries(needed, optional=optional)


def _is_key(value: object) -> bool:
    return value == value  # a NaN can be a key twice
