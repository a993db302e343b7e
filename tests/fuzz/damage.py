"""Ways to damage bytes and JSON; each takes a ``random.Random`` first, and changes nothing else."""

import copy
import json

#: Numbers at which sizes, offsets and counters break.
EDGES = (0, 1, -1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
#: Bytes that mean something to one parser or another.
TOKENS = (
    b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\xef\xbb\xbf", b"\xc3", b"\n", b"\r", b"\r\n", b'"',
    b'""', b"'", b"\\", b'\\"', b",", b";", b"\t", b"|", b"{", b"}", b"[", b"]", b":", b"PAR1",
    b"ARROW1", b"PK\x03\x04", b"NaN", b"1e999", b"-", b"9" * 40,
)  # fmt: skip
VALUES = (
    None, True, False, 0, 1, -1, 2, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, -(10**400), 0.5, 1e308,
    -1e308, 5e-324, float("nan"), float("inf"), "", "a", "\n", "\x00", "\ud800", "NaN", "1",
    "é" * 9, "x" * 5_000, [], [0], [1, 2, 3], [[]], [None], ["a"], {}, {"a": 1}, {"": None},
    [[1.0, 2.0], []],
)  # fmt: skip


def flipped(rng, content):
    changed = bytearray(content)
    for _ in range(rng.randint(1, 5) if content else 0):
        changed[rng.randrange(len(changed))] ^= rng.choice((1, 2, 16, 128, rng.randrange(1, 256)))
    return bytes(changed)


def spliced(rng, content):
    """Cut off, or with a gap, other bytes, a repetition or an edge number at some place."""
    at = rng.randrange(len(content) + 1)
    before, after = content[:at], content[at:]
    more = rng.choice((rng.choice(TOKENS), rng.randbytes(rng.randint(1, 40))))
    part = after[: rng.randint(1, 60)]
    size = rng.choice((1, 2, 4, 8))
    edge = rng.choice((*EDGES, len(content), len(content) + 1)) % 2 ** (8 * size)
    number = before + edge.to_bytes(size, "little") + after[size:]
    return rng.choice(
        (
            before if rng.random() < 0.7 else after,
            before + after[len(part) :],
            before + more * rng.choice((1, 1, 1, 2, 50)) + after,
            before + part * rng.choice((2, 2, 3, 40)) + after,
            number, number,
        )
    )  # fmt: skip


def damaged(rng, samples):
    """One of the samples, seldom whole; damaged in one to three ways, or joined with another."""
    content = rng.choice(samples)
    if rng.random() < 0.02:
        return content
    if rng.random() < 0.05:
        return rng.choice((b"", content[:8], content[:2])) + rng.randbytes(rng.randint(0, 300))
    if rng.random() < 0.1:
        other = rng.choice(samples)
        content = content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other)) :]
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice((flipped, spliced, spliced, spliced))(rng, content)
    return content


def odd_value(rng, depth=0):
    """A JSON value that is probably not expected."""
    if depth < 3 and rng.random() < 0.15:
        return [odd_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if depth < 3 and rng.random() < 0.1:
        return {rng.choice("abc"): odd_value(rng, depth + 1) for _ in range(rng.randint(0, 3))}
    if rng.random() < 0.1:
        return rng.choice((rng.uniform(-1e3, 1e3), rng.randint(-(2**40), 2**40), rng.random()))
    return rng.choice(VALUES)


def spots(tree, found=()):
    """Keys that lead to every value of a JSON tree."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in entries:
        yield (*found, key)
        if isinstance(value, dict | list):
            yield from spots(value, (*found, key))


def swapped(rng, tree, keys):
    """A JSON tree as text, with one to three values changed, moved, removed or added."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *path, last = rng.choice(keys)
        try:
            inside = tree
            for key in path:
                inside = inside[key]
            if isinstance(inside, dict | list):
                change(rng, inside, last)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the place
    return json.dumps(tree).encode()


def change(rng, inside, key):
    way = rng.random()
    if way < 0.1:
        del inside[key]
    elif way < 0.2 and isinstance(inside, dict):
        inside[rng.choice(("more", "", "__class__", "version"))] = inside[key]
    elif way < 0.2:
        inside.append(inside[key])
    elif way < 0.4 and isinstance(inside[key], int | float):
        inside[key] = rng.choice((-inside[key], inside[key] + 1, inside[key] * 10**9, EDGES[-1]))
    elif way < 0.5:
        inside[key] = inside[rng.choice(list(inside) if isinstance(inside, dict) else [0, -1])]
    else:
        inside[key] = odd_value(rng)
