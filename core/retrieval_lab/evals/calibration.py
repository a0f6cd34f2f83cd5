"""Choosing the support floor: how much of a question a passage must cover before it is answered.

Golden queries should pass the floor, questions about something else should not. Of all floors that refuse at most a
given share of the golden queries, the one is chosen that refuses the most others. Its errors are estimated on questions
that had no part in its choice (Stone, "Cross-Validatory Choice and Assessment of Statistical Predictions", 1974): the
two sets are dealt out into FOLDS parts, and each part is judged by the floor of the other ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.proportions import Share
from retrieval_lab.support import best_support
from retrieval_lab.text import folded

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.lab import Lab
    from retrieval_lab.types import GoldenQuery

FOLDS = 5
MOST_REFUSED = 0.05
"""The share of the golden queries that a floor may refuse, unless another is given."""

_LEAST = 2 * FOLDS  # two of each set in every part


@dataclass(frozen=True, slots=True)
class Measured:
    """One question and its support; `query_id` is None for a question that is not of the golden set."""

    query: str
    support: float
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """A floor, the questions that it was chosen by, and its errors on questions that it was not chosen by.

    `refused` counts golden queries below the floor, `answered` the other questions at or above it, both over all parts
    of the cross-validation. `most_refused` is the share of golden queries that the floor was allowed to refuse.
    """

    floor: float
    golden: tuple[Measured, ...]
    others: tuple[Measured, ...]
    refused: Share
    answered: Share
    most_refused: float

    def to_dict(self) -> dict[str, Any]:
        """The calibration as JSON has it."""
        return {
            "floor": self.floor,
            "most_refused": self.most_refused,
            "folds": FOLDS,
            "golden_refused": self.refused.to_dict(),
            "off_corpus_answered": self.answered.to_dict(),
            "golden": [asdict(one) for one in self.golden],
            "off_corpus": [
                {name: value for name, value in asdict(one).items() if name != "query_id"} for one in self.others
            ],
        }


def calibrated(
    golden: Sequence[Measured], others: Sequence[Measured], *, most_refused: float = MOST_REFUSED
) -> Calibration:
    """The floor for these questions, with its cross-validated errors.

    Raises InputError when there are fewer than ten questions of either set, or `most_refused` is outside 0 to 1.
    """
    for noun, found in (("golden queries with a relevant chunk", golden), ("off-corpus questions", others)):
        if len(found) < _LEAST:
            raise InputError(f"{len(found)} {noun}; expected at least {_LEAST} to calibrate with")
    if not 0 <= most_refused <= 1:
        raise InputError(f"the share of golden queries to refuse is {most_refused}; expected 0 to 1")
    refused = answered = 0
    for part in range(FOLDS):
        floor = best_floor(_without(golden, part), _without(others, part), most_refused)
        refused += sum(one.support < floor for one in golden[part::FOLDS])
        answered += sum(one.support >= floor for one in others[part::FOLDS])
    return Calibration(
        floor=best_floor([one.support for one in golden], [one.support for one in others], most_refused),
        golden=tuple(golden),
        others=tuple(others),
        refused=Share(refused, len(golden)),
        answered=Share(answered, len(others)),
        most_refused=most_refused,
    )


def _without(questions: Sequence[Measured], part: int) -> list[float]:
    return [one.support for place, one in enumerate(questions) if place % FOLDS != part]


def best_floor(golden: Sequence[float], others: Sequence[float], most_refused: float = MOST_REFUSED) -> float:
    """The floor that refuses the most of `others` and at most that share of `golden`.

    Of several, those that refuse the fewest golden queries; of the gap that is left, the middle, to 4 places where
    that does not leave the gap. 0 when every floor that refuses any of `others` refuses too many golden queries.
    """
    best, chosen = (0, 0), (0.0, 0.0)
    ends = sorted({0.0, *golden, *others})
    for low, high in zip(ends, [*ends[1:], 1.0], strict=True):
        # Any floor above `low`, up to `high`, parts the questions alike.
        lost, kept_out = sum(one <= low for one in golden), sum(one <= low for one in others)
        if lost > most_refused * len(golden):
            break
        if (kept_out, -lost) > best and high > low:
            best, chosen = (kept_out, -lost), (low, high)
    low, high = chosen
    if best[0] == 0:
        return 0.0
    middle = (low + high) / 2
    rounded = round(middle, 4)
    return rounded if low < rounded <= high else middle


def calibrate(
    lab: Lab,
    questions: Sequence[str],
    config: PipelineConfig | None = None,
    *,
    most_refused: float = MOST_REFUSED,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Calibration:
    """The floor for a pipeline, from the golden set of its corpus and questions that the corpus cannot answer.

    Golden queries without a relevant chunk have no part in it. `progress` hears of every question measured.

    Raises FaultyInput and InputError when there is no golden set to use, InputError when a question is a golden query
    too or as `calibrated` does, and Cancelled.
    """
    lab.require_golden()
    known = {folded(one.query): one.query_id for one in lab.golden}
    for question in questions:
        if folded(question) in known:
            raise InputError(f"the off-corpus question {question!r} is the golden query {known[folded(question)]}, too")
    asked: list[str | GoldenQuery] = [*lab.golden, *questions]
    measured: list[Measured] = []
    for done, query in enumerate(asked):
        if cancelled():
            raise Cancelled(f"stopped after {done} of {len(asked)} questions")
        progress(done, len(asked))
        measured += _measured(lab, query, config)
    progress(len(asked), len(asked))
    golden = [one for one in measured if one.query_id is not None]
    others = [one for one in measured if one.query_id is None]
    return calibrated(golden, others, most_refused=most_refused)


def _measured(lab: Lab, query: str | GoldenQuery, config: PipelineConfig | None) -> Iterator[Measured]:
    """The question's support; nothing for a golden query that has no relevant chunk, whose label is at fault."""
    trace = lab.trace(query, config)
    if trace.golden is None or trace.relevant:
        support = lab.work(lambda bench: best_support(bench.conn, trace, table=bench.table), config)
        yield Measured(trace.query, support, None if trace.golden is None else trace.golden.query_id)
