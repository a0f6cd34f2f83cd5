"""A funnel as text: what each stage leaves as bars, for terminals, pipes and the explorer; no colour is needed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.funnel import Funnel, Level, Step
from retrieval_lab.diagnosis.journey import LostAt
from retrieval_lab.settings import NoReranker
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable
from retrieval_lab.wording import share_text

LEAST_WIDTH: Final = 60
"""A narrower picture is made this wide."""

_FULL, _GONE = "█", "░"
_STAGE = 9
_LEAST_BAR = 8


def funnel_text(funnel: Funnel, width: int = 80, *, kind: str | None = None) -> str:
    """The picture of all queries, or of those of one kind, in lines of at most `width` characters.

    A line has the stage, how many passages it leaves, those as a bar, how many it loses and why. Lines without a line
    break at the end. Raises KeyError for a kind that the funnel does not have.
    """
    level = funnel.all if kind is None else funnel.by_kind[kind]
    return "\n".join(line.rstrip() for line in _picture(funnel, level, max(width, LEAST_WIDTH)))


def lost_text(funnel: Funnel, width: int = 80) -> str:
    """The ids that each stage loses, in lines of at most `width` characters; empty when nothing is lost."""
    return "\n".join(_ids(funnel.all.steps, max(width, LEAST_WIDTH)))


def _picture(funnel: Funnel, level: Level, width: int) -> Iterator[str]:
    whys = {step.stage: _why(step.stage, funnel.config) if step.lost else "" for step in level.steps}
    numbers = len(str(level.queries))
    shares = {step.stage: share_text(step.share) if step.lost else "" for step in level.steps}
    share_width = max(map(len, shares.values()))
    # The number that is left and lost, the gaps, and the reason leave the rest to the bar.
    right = numbers + 3 + share_width + 2 + max(map(len, whys.values()))
    bar = max(_LEAST_BAR, width - _STAGE - numbers - 4 - right)
    asked = _bar(level.queries, level.queries, level.queries, bar)
    yield f"{'asked':<{_STAGE}} {level.queries:>{numbers}} {asked}"
    for step in level.steps:
        drawn = _bar(step.left, step.entered, level.queries, bar)
        lost = f"-{len(step.lost)}" if step.lost else "·"
        told = f"{shares[step.stage]:<{share_width}}  {whys[step.stage]}"
        line = f"{step.stage:<{_STAGE}} {step.left:>{numbers}} {drawn}  {lost:>{numbers + 1}}  {told}"
        yield line if len(line) <= width else f"{line[: width - 1]}…"
    yield (
        f"{'final':<{_STAGE}} {len(level.found):>{numbers}} of {level.queries} are in the final list of"
        f" {funnel.config.top_k}: {share_text(level.share)}"
    )


def _bar(left: int, entered: int, queries: int, width: int) -> str:
    """What a stage leaves, and in another shade what it loses; a loss that is there shows."""
    if not queries:
        return " " * width
    to = round(width * entered / queries)
    full = min(round(width * left / queries), to - 1) if left < entered and to else round(width * left / queries)
    return (_FULL * full + _GONE * (to - full)).ljust(width)


def _why(stage: LostAt, config: PipelineConfig) -> str:
    return {
        "chunking": "in no chunk",
        "pool": "on no list, or filtered" if config.filter else "on no list",
        "index": "not in the index's list",
        "fusion": f"cut by the fused {_fused_cut(config)}",
        "reranker": f"ranked beyond {config.top_k}",
        "mmr": "passed over",
    }[stage]


def _fused_cut(config: PipelineConfig) -> int:
    """Without a reranker the fused order is the last, and nothing lifts what is beyond its first top_k."""
    is_last = isinstance(config.reranker, NoReranker)
    return min(config.top_k, config.fusion.n) if is_last else config.fusion.n


def _ids(steps: Sequence[Step], width: int) -> Iterator[str]:
    for step in steps:
        if step.lost:
            ids = " ".join(shorten_middle(printable(one), width - _STAGE - 1) for one in step.query_ids)
            indent = " " * (_STAGE + 1)
            yield from textwrap.wrap(
                ids,
                width,
                initial_indent=f"{step.stage:<{_STAGE}} ",
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
