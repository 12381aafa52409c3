"""A group of a count window aggregate at rest: what of it is saved, as one array."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled

PARTS = 9  # of a group: their sizes come first, then they


class Packed(NamedTuple):
    """Groups at rest, one after the other: group j is array[begin[j] : begin[j + 1]], int64."""

    array: np.ndarray
    begin: np.ndarray


class Group(NamedTuple):
    """What of a group is saved, in the order in which it is packed.

    marks : int64[3], arrived, overflow, short    indices : int64[held], stream indices
    offsets : int64[held + 1], the alternatives of each tuple held
    memo : int64[...], where the older part of each sum ends, how many numbers of each average
        follow, and these: see `grown` of AverageState
    sums : float64[6], of a window by an approximate law    existence : float64[held]
    prob : float64[m], values : float64[m * a], of the alternatives
    numbers : float64[2 k], reference and ratio of each sum
    """

    marks: np.ndarray
    indices: np.ndarray
    offsets: np.ndarray
    memo: np.ndarray
    sums: np.ndarray
    existence: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    numbers: np.ndarray


@compiled
def unpacked(array):
    """The group that an array is: views."""
    ends = PARTS + np.cumsum(array[:PARTS])
    reals = array[ends[3] :].view(np.float64)
    ends[4:] -= ends[3]
    return Group(
        array[PARTS : ends[0]], array[ends[0] : ends[1]], array[ends[1] : ends[2]],
        array[ends[2] : ends[3]], reals[: ends[4]], reals[ends[4] : ends[5]],
        reals[ends[5] : ends[6]], reals[ends[6] : ends[7]], reals[ends[7] : ends[8]],
    )  # fmt: skip


@compiled
def pack(group, array, begin):
    """Write a group to `array` from `begin` on; where it ends."""
    whole = group.marks, group.indices, group.offsets, group.memo
    reals = group.sums, group.existence, group.prob, group.values, group.numbers
    end = begin + PARTS
    for i in range(4):
        array[begin + i] = whole[i].size
        array[end : end + whole[i].size] = whole[i]
        end += whole[i].size
    for i in range(5):
        array[begin + 4 + i] = reals[i].size
        array[end : end + reals[i].size].view(np.float64)[:] = reals[i]
        end += reals[i].size
    return end
