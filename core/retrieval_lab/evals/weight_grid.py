"""The weights of several lists as shares of their sum, and which of them are tried."""

from __future__ import annotations

import math
from collections.abc import Sequence

Weights = tuple[float, ...]

PAIR_STEPS = 20
STEPS = 10


def shares(weights: Sequence[float]) -> Weights:
    """The weights over their sum, which fuse alike; to 12 places, so that those of a grid are equal to it."""
    total = math.fsum(weights)
    return tuple(round(weight / total, 12) for weight in weights)


def distance(one: Weights, other: Weights) -> float:
    """How much of the weight one has to be moved to make the other of it, from 0 to 1."""
    return math.fsum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2


def pairs() -> list[Weights]:
    """The shares of two lists in steps of 0.05, the second alone first."""
    return [(step / PAIR_STEPS, (PAIR_STEPS - step) / PAIR_STEPS) for step in range(PAIR_STEPS + 1)]


def on_grid(weights: Weights) -> Weights:
    """The nearest shares in steps of 0.1: largest remainders round up, of equal ones the first."""
    exact = [weight * STEPS for weight in weights]
    units = [math.floor(one + 1e-9) for one in exact]
    order = sorted(range(len(exact)), key=lambda place: (-round(exact[place] - units[place], 9), place))
    for place in order[: STEPS - sum(units)]:
        units[place] += 1
    return tuple(unit / STEPS for unit in units)


def neighbours(weights: Weights) -> list[Weights]:
    """The shares in steps of 0.1 that differ in two lists, of which one gives to the other what it has or a part."""
    units = [round(weight * STEPS) for weight in weights]
    found = []
    for giver in range(len(units)):
        for taker in range(len(units)):
            for step in range(1, units[giver] + 1) if giver != taker else ():
                moved = [*units]
                moved[giver] -= step
                moved[taker] += step
                found.append(tuple(unit / STEPS for unit in moved))
    return found
