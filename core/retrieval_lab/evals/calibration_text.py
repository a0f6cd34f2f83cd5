"""A calibration as text: how the support of both sets is distributed, on either side of the floor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieval_lab.evals.calibration import FOLDS, Calibration, Measured
from retrieval_lab.wording import share_text

_BINS = 20
_LABEL = len("0.00–0.05")
_NUMBERS = 3


def calibration_lines(found: Calibration, width: int) -> Iterator[str]:
    """The two distributions side by side, a line for each twentieth of the scale, and the errors below.

    Off-corpus questions grow to the left, golden queries to the right, in bars of at most the lines' width.
    """
    others, golden = _counted(found.others), _counted(found.golden)
    side = max(10, (width - _LABEL - 2 * _NUMBERS - 4) // 2)
    widest = max(*others, *golden)
    yield f"{'off the corpus':>{side}} {'':{_NUMBERS}} {'support':^{_LABEL}} {'':{_NUMBERS}} golden"
    held = [number for number in range(_BINS) if others[number] or golden[number]]
    for number in range(held[0], held[-1] + 1):
        low, high = number / _BINS, (number + 1) / _BINS
        left, right = _bar(others[number], widest, side), _bar(golden[number], widest, side)
        mark = "◂ floor" if low < found.floor <= high else ""
        label = f"{low:.2f}–{high:.2f}"
        numbers = f"{others[number] or '':>{_NUMBERS}}", f"{golden[number] or '':<{_NUMBERS}}"
        yield f"{left:>{side}} {numbers[0]} {label} {numbers[1]} {right} {mark}".rstrip()
    yield ""
    allowed = f"{found.most_refused:.0%} of the golden queries"
    yield f"floor {found.floor:g}: refuses at most {allowed}, and the most others"
    yield f"on questions that had no part in the choice ({FOLDS}-fold cross-validation):"
    for what, share in (("golden queries refused", found.refused), ("off-corpus questions answered", found.answered)):
        yield f"  {what:<29}  {share.count:>{_NUMBERS}} of {share.of}: {share_text(share)}"


def _counted(questions: Sequence[Measured]) -> list[int]:
    counts = [0] * _BINS
    for one in questions:
        counts[min(int(one.support * _BINS), _BINS - 1)] += 1
    return counts


def _bar(count: int, widest: int, width: int) -> str:
    return "█" * max(round(count / widest * width), 1 if count else 0)
