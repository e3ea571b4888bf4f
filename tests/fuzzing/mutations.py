"""Random changes of bytes, with the tokens that break parsers."""

import random

TOKENS = [
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"null", b"true", b"NaN", b"1e400", b"-1", b'""', b"[]",
    b"{}", b"[[", b'"', b"\\", b"\t", b"\n", b"\r\n", b"\n\n\n", b"'", b"9" * 5000, b"[" * 3000,
    b'{"a":' * 3000, b"\\ud800", "\u00e9".encode("utf-16"), b"!!python/object:x.y {}",
    b"&a [*a, *a]", b"- " * 50,
]  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return the content with up to four random changes."""
    mutated = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(7):
            case 0 if mutated:
                mutated[at % len(mutated)] ^= 1 << rng.randrange(8)
            case 1:
                del mutated[at : at + rng.randint(1, 20)]
            case 2:
                mutated[at:at] = rng.choice(TOKENS)
            case 3:
                mutated[at : at + rng.randint(1, 12)] = rng.choice(TOKENS)
            case 4:
                del mutated[at:]
            case 5:
                start = rng.randrange(len(mutated) + 1)
                mutated[at:at] = mutated[start : start + 40]
            case _ if rng.random() < 0.2:
                mutated = bytearray(
                    bytes(mutated)
                    .decode(errors="replace")
                    .encode(rng.choice(["utf-16", "utf-8-sig"]))
                )
    return bytes(mutated)
