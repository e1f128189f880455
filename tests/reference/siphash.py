"""Slow reference implementation of SipHash, in Python's integers, as its paper describes it."""

from __future__ import annotations

_WHOLE = (1 << 64) - 1


def siphash(key: bytes, message: bytes, rounds: int = 1, last_rounds: int = 3) -> int:
    """SipHash-`rounds`-`last_rounds` of `message` under a key of 16 bytes."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = [word ^ int.from_bytes(text, "big") for word, text in zip((k0, k1, k0, k1), _TEXTS, strict=True)]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        state[3] ^= word
        for _ in range(rounds):
            turn(state)
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(last_rounds):
        turn(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


_TEXTS = (b"somepseu", b"dorandom", b"lygenera", b"tedbytes")


def turn(state: list[int]) -> None:
    """One SipRound: additions, rotations and exclusive ors in the order of the paper's figure 2.1."""
    for a, b, by, halves in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
        state[a] = (state[a] + state[b]) & _WHOLE
        state[b] = rotated(state[b], by) ^ state[a]
        if halves:
            state[a] = rotated(state[a], 32)


def rotated(word: int, by: int) -> int:
    """`word` with its bits moved left by `by`, those that fall off coming in on the right."""
    return (word << by | word >> (64 - by)) & _WHOLE
