"""The saved form of state: packed values are restored, and anything else is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.operators.state.snapshot import SavedState, SnapshotError, pack, unpack

numbers = hnp.arrays(
    st.sampled_from([np.dtype(d) for d in ("f8", "f4", "i8", "i4", "u1", "?")]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)


@given(
    values=st.dictionaries(st.text(max_size=5), scalars, max_size=4),
    arrays=st.dictionaries(st.text(max_size=5), numbers, max_size=4),
)
def test_scalars_and_arrays_come_back_as_they_were(values, arrays):
    back = unpack(pack("window", 3, SavedState(values, arrays)), "window", 3)
    assert back.values == values
    assert back.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].flags.writeable


@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_noticed(place, bit):
    data = bytearray(pack("window", 1, SavedState({"n": 5}, {"p": np.arange(5.0)})))
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(SnapshotError):
        unpack(bytes(data), "window", 1)


@given(st.binary(max_size=40))
def test_other_bytes_are_not_a_snapshot(data):
    with pytest.raises(SnapshotError, match="expected a sfumato snapshot of `window`"):
        unpack(data, "window", 1)


def test_another_kind_or_version_is_named_in_the_error():
    data = pack("window", 1, SavedState())
    with pytest.raises(
        SnapshotError, match="expected a snapshot of `join` version 1; got `window`"
    ):
        unpack(data, "join", 1)
    with pytest.raises(SnapshotError, match="version 2; got `window` version 1"):
        unpack(data, "window", 2)


def test_objects_cannot_be_saved():
    with pytest.raises(TypeError, match="array `names` must be numeric or boolean; got object"):
        pack("window", 1, SavedState(arrays={"names": np.array([{}], dtype=object)}))
