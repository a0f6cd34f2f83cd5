"""The random numbers of the index format, the same in every language.

PCG-XSH-RR with 64 bits of state and 32 of output: O'Neill, "PCG: A Family of Simple Fast Space-Efficient
Statistically Good Algorithms for Random Number Generation" (2014).
"""

from __future__ import annotations

from retrieval_lab.errors import InputError

_STATE = (1 << 64) - 1
_OUTPUT = (1 << 32) - 1
_MULTIPLIER = 6364136223846793005
_STREAM = 54
_INCREMENT = _STREAM << 1 | 1

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


class PCG32:
    """A sequence of 32-bit numbers, stream 54."""

    def __init__(self, seed: int) -> None:
        """`seed` is taken modulo 2**64."""
        self._state = 0
        self.step()
        self._state = self._state + seed & _STATE
        self.step()

    def step(self) -> int:
        """The next number, 0 to 2**32 - 1."""
        old = self._state
        self._state = old * _MULTIPLIER + _INCREMENT & _STATE
        shifted = (old >> 18 ^ old) >> 27 & _OUTPUT
        rotation = old >> 59
        return (shifted >> rotation | shifted << (-rotation & 31)) & _OUTPUT

    def below(self, n: int) -> int:
        """A number from 0 to n - 1, each as likely: draws below `2**32 mod n` are thrown away.

        Raises InputError unless n is 1 to 2**32.
        """
        if not 1 <= n <= _OUTPUT + 1:
            raise InputError(f"{n} numbers to draw from; expected 1 to 2**32")
        threshold = (_OUTPUT + 1 - n) % n
        while (drawn := self.step()) < threshold:
            pass
        return drawn % n

    def random(self) -> float:
        """A number in [0, 1) with 53 random bits, of two draws."""
        high, low = self.step() >> 5, self.step() >> 6
        return (high * (1 << 26) + low) * 2.0**-53


def fnv1a64(s: str) -> int:
    """The 64-bit FNV-1a hash of the text's UTF-8 bytes (Fowler, Noll and Vo)."""
    value = _FNV_OFFSET
    for byte in s.encode():
        value = (value ^ byte) * _FNV_PRIME & _STATE
    return value
