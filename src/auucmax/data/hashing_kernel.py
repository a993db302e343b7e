"""Hashes of rows, compiled; imported late. Twin: ``content_hashes_slow`` in ``hashing.py``.

A column of a block of rows goes through short loops, each of which writes one array: a compiler
turns such a loop into instructions that work on several rows at once, which halves the time of one
loop that does everything. Indices are unsigned, because a sign would have to be tested.
"""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

import numpy as np

from auucmax._optional import compiled

_BLOCK = 512  # rows whose arrays all stay in the nearest cache
_EXPONENT = np.uint32(0x7F800000)  # bits of a float32 that are all set if it is no finite number


@compiled(nogil=True, error_model="numpy")
def hash_contents(X, tens, scales, following, result):
    """Fill (3, n) with the hashes of each row, on the grids of ``hashing.GRIDS``.

    ``following`` (256,) has the power of ten above a float32 by its binary exponent, or the one
    before; ``tens`` and ``scales`` (512,) the power of ten below it, and its inverse, for numbers
    below ``following`` and above it.
    """
    short, value = np.empty(_BLOCK, np.float32), np.empty(_BLOCK)
    bits = short.view(np.uint32)
    place, ten = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.int64)
    codes, hashes = np.empty(_BLOCK, np.int64), np.empty((3, _BLOCK), np.uint64)
    for start in range(0, len(X), _BLOCK):
        n = min(_BLOCK, len(X) - start)
        hashes[:] = 1
        for j in range(X.shape[1]):
            for i in range(n):
                short[i] = X[start + i, j]
            find_places(short, bits, following, place)
            for i in range(_BLOCK):
                value[i] = scales[place[i]]
            for i in range(_BLOCK):
                value[i] *= np.float64(short[i])
            for i in range(_BLOCK):
                ten[i] = tens[place[i]]
            top = np.uint32(0)
            for i in range(_BLOCK):
                top = max(top, bits[i] & _EXPONENT)
            for k, limit in ((1, 1e3), (0, 1e3), (2, 1e6)):
                if k == 0:  # from the codes to 3 digits, which are there
                    code_decimal(short, ten, codes)
                else:
                    code_digits(value, ten, limit, codes)
                if top == _EXPONENT:
                    for i in range(_BLOCK):
                        if bits[i] & _EXPONENT == _EXPONENT:  # infinite or missing
                            codes[i] = np.int64(bits[i])
                take_in(codes, hashes[k])
        for k in range(3):
            for i in range(n):
                result[k, start + i] = mixed(hashes[k, i])


@compiled(nogil=True, error_model="numpy")
def find_places(short, bits, following, place):
    """Places of numbers in the tables: the binary exponent, and 256 more above ``following``."""
    for i in range(len(place)):
        binary = np.uint64((bits[i] >> np.uint32(23)) & np.uint32(255))
        above = abs(np.float64(short[i])) >= following[binary]
        place[i] = binary + (np.uint64(256) if above else np.uint64(0))


@compiled(nogil=True, error_model="numpy")
def code_digits(value, ten, limit, codes):
    """A whole number for the digits of each value, from 1 to 10, and its power of ten."""
    for i in range(len(codes)):
        digits = np.rint(value[i] * (limit / 10))
        up = abs(digits) >= limit  # rounded up, to 10: 1 and the next power of ten
        codes[i] = np.int64(digits * (0.1 if up else 1.0)) * 1024 + ten[i] + np.int64(up)


@compiled(nogil=True, error_model="numpy")
def code_decimal(short, ten, codes):
    """Codes of three digits, in place, as those of one decimal where that is fewer digits."""
    for i in range(len(codes)):
        small = np.int64(np.rint(np.float64(short[i]) * (10.0 if ten[i] < 1 else 0.0)))
        codes[i] = small * 1024 + 1 if ten[i] < 1 else codes[i]


@compiled(nogil=True, error_model="numpy")
def take_in(codes, hashes):
    """Make the codes of a further column part of the hashes, in place."""
    for i in range(len(codes)):
        value = (hashes[i] ^ np.uint64(codes[i])) * np.uint64(0xBF58476D1CE4E5B9)
        hashes[i] = value ^ (value >> np.uint64(30))


@compiled(nogil=True)
def mixed(value):
    """A fixed scrambling of 64 bits: the twin of ``mix_bits``."""
    value += np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
