"""Spark's `xxhash64`, a 64-bit hash of rows that distinguishes simultaneous rows.

The hash of the preceding values seeds the hash of each value; a missing value leaves it unchanged.
Arithmetic is on unsigned 64-bit integers, modulo 2**64. Source: Collet, "xxHash", version 0.1.1.
"""

import numpy as np

from sfumato.kernels.compile import inlined, lean, lean_inline

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)
HASH_BITS = np.uint64(64)


@lean_inline
def _rotate_left(word, bits):
    return (word << bits) | (word >> (HASH_BITS - bits))


@lean_inline
def _avalanche(h):
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@lean_inline
def _add_word(h, word):
    return _rotate_left(h ^ (_rotate_left(word * P2, np.uint64(31)) * P1), np.uint64(27)) * P1 + P4


@lean_inline
def _add_half_word(h, half):
    return _rotate_left(h ^ (half * P1), np.uint64(23)) * P2 + P3


@lean_inline
def _word_at(data, at, size):
    """Return the little-endian number in `size` bytes at `at`."""
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@lean
def hash_words(seeds, offsets, words, present, wide):
    """Hash lists of fixed-size words into the rows' hashes, in place.

    seeds : uint64[n], the hashes    offsets : int64[n + 1]; row i has elements offsets[i] ...
    words : uint64[m, f], fields of each element in hashing order; int32 in the low half
    present : bool[m, f], not NULL    wide : bool[f], True for fields of 8 bytes, False for 4
    O(m f).
    """
    for i in range(seeds.size):
        h = seeds[i]
        for j in range(offsets[i], offsets[i + 1]):
            for k in range(wide.size):
                if present[j, k]:
                    if wide[k]:
                        h = _avalanche(_add_word(h + P5 + np.uint64(8), words[j, k]))
                    else:
                        half = words[j, k] & np.uint64(0xFFFFFFFF)
                        h = _avalanche(_add_half_word(h + P5 + np.uint64(4), half))
        seeds[i] = h


@lean
def hash_bytes(seeds, offsets, data, present):
    """Hash byte strings into the rows' hashes, in place.

    seeds : uint64[n], the hashes    offsets : int64[n + 1], start of each row's bytes in `data`
    data : uint8[]    present : bool[n], not NULL
    O(bytes).
    """
    for i in range(seeds.size):
        if present[i]:
            seeds[i] = _hash_of(data, offsets[i], offsets[i + 1], seeds[i])


@inlined
def _hash_of(data, at, end, seed):
    length = end - at
    if length >= 32:
        v1, v2, v3, v4 = seed + P1 + P2, seed + P2, seed, seed - P1
        while at <= end - 32:
            v1 = _rotate_left(v1 + _word_at(data, at, 8) * P2, np.uint64(31)) * P1
            v2 = _rotate_left(v2 + _word_at(data, at + 8, 8) * P2, np.uint64(31)) * P1
            v3 = _rotate_left(v3 + _word_at(data, at + 16, 8) * P2, np.uint64(31)) * P1
            v4 = _rotate_left(v4 + _word_at(data, at + 24, 8) * P2, np.uint64(31)) * P1
            at += 32
        h = _rotate_left(v1, np.uint64(1)) + _rotate_left(v2, np.uint64(7))
        h += _rotate_left(v3, np.uint64(12)) + _rotate_left(v4, np.uint64(18))
        for v in (v1, v2, v3, v4):
            h = (h ^ (_rotate_left(v * P2, np.uint64(31)) * P1)) * P1 + P4
    else:
        h = seed + P5
    h += np.uint64(length)
    while at <= end - 8:
        h = _add_word(h, _word_at(data, at, 8))
        at += 8
    if at <= end - 4:
        h = _add_half_word(h, _word_at(data, at, 4))
        at += 4
    while at < end:
        h = _rotate_left(h ^ (np.uint64(data[at]) * P5), np.uint64(11)) * P1
        at += 1
    return _avalanche(h)
