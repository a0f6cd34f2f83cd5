"""Where the passages of a golden set are lost: how many of them each stage of the pipeline lets through.

One passage a query counts, the best placed of its relevant chunks, as in a journey: that one is the query's fate, and
its chunks do not count for several just because an overlap repeats the anchor. A query whose anchor no chunk holds is
lost at chunking. So the parts of a funnel are the golden queries themselves, each at one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.follow import best_placed, parted, way
from retrieval_lab.diagnosis.golden_walk import over_golden
from retrieval_lab.diagnosis.journey import LostAt, read_lost_at
from retrieval_lab.errors import InputError
from retrieval_lab.evals.proportions import Share
from retrieval_lab.passages import Passages, passage
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.stored import Stored, read_as
from retrieval_lab.trace import Trace

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

FORMAT: Final = 1

STAGES: Final[tuple[LostAt, ...]] = get_args(LostAt)
"""The stages that can lose a passage, in the order of the pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of the passage of one golden query.

    `chunk_id` is the best placed of its relevant chunks, None when no chunk holds the anchor. `final_rank` is its rank
    in the final list; without one it was lost at `lost_at`, and `reason` says why in one line.
    """

    query_id: str
    query: str
    kind: str
    chunk_id: str | None
    final_rank: int | None
    lost_at: LostAt | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of a funnel: how many passages came to it, those that it lost, and how many it left."""

    stage: LostAt
    entered: int
    lost: tuple[Fate, ...]
    share: Share
    """The lost of all passages of the funnel, not of those that came to the stage."""

    @property
    def left(self) -> int:
        """How many passages go on from it."""
        return self.entered - len(self.lost)

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The queries whose passages it lost, in the order of the file."""
        return tuple(fate.query_id for fate in self.lost)


@dataclass(frozen=True, slots=True)
class Level:
    """The funnel of some golden queries: its steps in order, and the passages that reach the final list."""

    queries: int
    steps: tuple[Step, ...]
    found: tuple[Fate, ...]
    share: Share
    """The found of all passages."""

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The queries whose passages are found, in the order of the file."""
        return tuple(fate.query_id for fate in self.found)

    def step(self, stage: LostAt) -> Step:
        """The step of a stage."""
        return self.steps[STAGES.index(stage)]

    def to_dict(self) -> dict[str, Any]:
        """The level as JSON has it."""
        return {
            "queries": self.queries,
            "steps": [
                {
                    "stage": step.stage,
                    "entered": step.entered,
                    "lost": step.share.to_dict(),
                    "left": step.left,
                    "query_ids": list(step.query_ids),
                }
                for step in self.steps
            ],
            "found": {**self.share.to_dict(), "query_ids": list(self.query_ids)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """The fates of all golden queries under one configuration, in the order of the file.

    `corpus` is the name of the corpus folder. All counts are made from the fates.
    """

    corpus: str
    config: PipelineConfig
    fates: tuple[Fate, ...]

    @property
    def all(self) -> Level:
        """The funnel of all queries."""
        return _level(self.fates)

    @property
    def by_kind(self) -> Mapping[str, Level]:
        """The funnel of the queries of each kind, kinds sorted."""
        kinds = sorted({fate.kind for fate in self.fates})
        return {kind: _level([fate for fate in self.fates if fate.kind == kind]) for kind in kinds}

    def fate(self, query_id: str) -> Fate | None:
        """The fate of one query."""
        return next((fate for fate in self.fates if fate.query_id == query_id), None)

    def to_dict(self) -> dict[str, Any]:
        """The funnel as JSON has it, with `"format": 1`; `from_dict` makes an equal funnel of it."""
        return {
            "format": FORMAT,
            "corpus": self.corpus,
            "config": self.config.to_dict(),
            "all": self.all.to_dict(),
            "by_kind": {kind: level.to_dict() for kind, level in self.by_kind.items()},
            "fates": [asdict(fate) for fate in self.fates],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Funnel:
        """The funnel that `to_dict` wrote; its counts are made anew.

        Raises InputError for another format or a broken document.
        """
        return read_as("funnel", FORMAT, data, _read)


def funnel(
    lab: Lab,
    config: PipelineConfig | None = None,
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Funnel:
    """Where the passage of each golden query is lost, if it is, under a configuration over the lab's index.

    Each query runs once through the pipeline, as in an evaluation; only what is lost is looked at further. `progress`
    and `cancelled` are as for `Lab.evaluate_queries`, and it raises as that does.
    """
    fates = over_golden(lab, config, _fate, progress=progress, cancelled=cancelled)
    return Funnel(corpus=lab.corpus.name, config=config or lab.config, fates=fates)


def _fate(trace: Trace, pipeline: Pipeline, corpus: Passages) -> Fate:
    golden = trace.golden
    if golden is None:
        raise InputError("only the traces of golden queries have a fate")
    chunk_id = best_placed(trace)
    final_rank = next((row.rank for row in trace.final if row.chunk_id == chunk_id), None)
    stage: LostAt | None = None
    reason = None
    if chunk_id is None:
        stage, (_, _, reason) = "chunking", parted(trace, golden, corpus)
    elif final_rank is None:
        found = way(trace, pipeline, corpus, passage(corpus, chunk_id))
        stage, reason = found.lost_at, found.reason
    return Fate(
        query_id=golden.query_id,
        query=golden.query,
        kind=golden.kind,
        chunk_id=chunk_id,
        final_rank=final_rank,
        lost_at=stage,
        reason=reason,
    )


def _level(fates: Sequence[Fate]) -> Level:
    steps: list[Step] = []
    entered = len(fates)
    for stage in STAGES:
        lost = tuple(fate for fate in fates if fate.lost_at == stage)
        steps.append(Step(stage, entered, lost, Share(len(lost), len(fates))))
        entered -= len(lost)
    found = tuple(fate for fate in fates if fate.lost_at is None)
    return Level(len(fates), tuple(steps), found, Share(len(found), len(fates)))


# --- reading -------------------------------------------------------------------------------------------------------


def _read(data: Stored) -> Funnel:
    found = Funnel(
        corpus=data.text("corpus"),
        config=PipelineConfig.from_dict(data.inner("config").values),
        fates=data.each("fates", _read_fate),
    )
    _require_distinct(fate.query_id for fate in found.fates)
    return found


def _read_fate(value: Any, place: str) -> Fate:
    data = Stored(value, place)
    found = Fate(
        query_id=data.text("query_id"),
        query=data.text("query"),
        kind=data.text("kind"),
        chunk_id=data.text_or_none("chunk_id"),
        final_rank=data.rank_or_none("final_rank"),
        lost_at=read_lost_at(data.text_or_none("lost_at")),
        reason=data.text_or_none("reason"),
    )
    if (found.lost_at is None) != (found.final_rank is not None):
        raise InputError(f"{place} has both a final_rank and a stage that lost it, or neither")
    return found


def _require_distinct(query_ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for query_id in query_ids:
        if query_id in seen:
            raise InputError(f"query id {query_id!r} stands twice")
        seen.add(query_id)
