"""Hashes of rows, compiled; imported late. Twin: ``content_hashes_slow`` in ``hashing.py``."""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

import numpy as np

from auucmax._compile import compiled


@compiled(nogil=True)
def hash_contents(X, tens, scales, following, result):
    """Fill (2, n) with the hashes of each row, to 3 and to 6 digits.

    ``following`` (256,) has the power of ten above a float32 by its binary exponent, or the one
    before; ``tens`` and ``scales`` (512,) the power of ten below it, and its inverse, for numbers
    below ``following`` and above it.
    """
    short = np.empty(1, np.float32)
    bits = short.view(np.uint32)
    for i in range(len(X)):
        three = six = np.uint64(1)
        for j in range(X.shape[1]):
            short[0] = X[i, j]
            binary = (bits[0] >> np.uint32(23)) & np.uint32(255)
            if binary == 255:  # infinite or missing
                one = other = np.uint64(bits[0])
            else:
                value = np.float64(short[0])
                # A place in a table, not a branch: half of all numbers would be guessed wrong.
                place = np.int64(binary) + 256 * np.int64(abs(value) >= following[binary])
                value, ten = value * scales[place], tens[place]
                one = coded(np.rint(value * 1e2), ten, 1e3)
                other = coded(np.rint(value * 1e5), ten, 1e6)
            three = (three ^ one) * np.uint64(0xBF58476D1CE4E5B9)
            three ^= three >> np.uint64(30)
            six = (six ^ other) * np.uint64(0xBF58476D1CE4E5B9)
            six ^= six >> np.uint64(30)
        result[0, i] = mixed(three)
        result[1, i] = mixed(six)


@compiled(nogil=True)
def coded(digits, ten, limit):
    """A whole number for digits and their power of ten."""
    if abs(digits) >= limit:  # rounded up
        digits /= 10
        ten += 1
    return np.uint64(np.int64(digits) * 1024 + ten)


@compiled(nogil=True)
def mixed(value):
    """A fixed scrambling of 64 bits: the twin of ``mix_bits``."""
    value += np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
