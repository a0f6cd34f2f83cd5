"""What would have rescued a missed passage: every single change that does, and what each does to the other questions.

A change of settings is computed over candidates that are kept (`rescue_kept`), by the stages' own code, so that a
pipeline run from scratch with the configuration of a rescue has the passage in its final list. What is tried, and how
finely, stands in `rescue_grid` and `rescue_terms`, the order of what is found in `rescue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from retrieval_lab.assembly import Bench
from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.rescue import Cost, Rescues, Tried, ordered, rescued, step_between
from retrieval_lab.diagnosis.rescue_grid import HEADERS, Switch, index_variants
from retrieval_lab.diagnosis.rescue_index import temporary_index
from retrieval_lab.diagnosis.rescue_kept import Candidates
from retrieval_lab.diagnosis.rescue_search import Probe, Search, Steps
from retrieval_lab.errors import InputError
from retrieval_lab.index import Progress
from retrieval_lab.metrics import relevant, why_undefined
from retrieval_lab.store import chunks_of, fetch
from retrieval_lab.types import Chunk, GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

EVERY_SETTING = "query and settings"
"""What the changes that need no other index are called together."""

_BY_ID_ALONE = "the passage is known by its chunk id alone, which another cut gives to another text"


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, the passages any of which answers, and why there are none.

    `golden` is the query whose label finds them, None where a chunk was named that is not one of those.
    """

    text: str
    query_id: str | None
    golden: GoldenQuery | None
    wanted: tuple[Chunk, ...]
    unlabelled: str | None


def rescues(
    lab: Lab,
    query: str | GoldenQuery,
    chunk_id: str | None = None,
    config: PipelineConfig | None = None,
    *,
    reindex: bool = False,
    slow: bool = False,
    progress: Callable[[int, int, str], None] = lambda _done, _total, _what: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Rescues:
    """Every single change that brings a missed passage into the final list, the smallest first.

    The passage is that of the golden query, or the chunk named. `config` is another pipeline over the lab's index. With
    `reindex` the corpus is also indexed in other ways, each for a moment, unless its embedder runs a model and `slow`
    is not given. `progress` hears how many of how many steps are done and what is tried now; `cancelled` is asked
    between any two runs of a pipeline.

    Raises InputError when no passage is named or there is no such chunk, when `config` needs another index, and with
    `reindex` when files changed since the lab was opened; Cancelled; and as `Lab.trace` does.
    """
    if reindex and lab.changed_files():
        raise InputError(f"{lab.corpus}: files changed since they were indexed; open the corpus again")
    steps = Steps(progress, cancelled)

    def work(bench: Bench) -> Rescues:
        question = _question(bench, query, chunk_id)
        others = [one for one in lab.golden if one.query_id != question.query_id]
        search = Search(bench, question.text, question.wanted, others, steps)
        variants = index_variants(bench.config) if reindex and search.is_miss else []
        steps.total = len(variants) + (search.steps if search.is_miss and question.wanted else 0)
        if search.is_miss and question.wanted:
            search.run()
        elif search.is_miss:
            search.tried.append(Tried(setting=EVERY_SETTING, range="", values=0, reason=question.unlabelled))
        for variant in variants:
            with steps.step(_named(bench.config, variant)):
                _reindex(lab, bench, question, search, variant, steps, slow=slow)
        steps.tell("done")
        return Rescues(
            query=question.text,
            query_id=question.query_id,
            wanted=tuple(chunk.chunk_id for chunk in question.wanted),
            unlabelled=question.unlabelled,
            before=search.before,
            config=bench.config,
            rescues=ordered(search.found),
            tried=tuple(search.tried),
        )

    return lab.work(work, config)


def _question(bench: Bench, query: str | GoldenQuery, chunk_id: str | None) -> _Question:
    golden = query if isinstance(query, GoldenQuery) else None
    text, query_id = (golden.query, golden.query_id) if golden else (str(query), None)
    of_document = chunks_of(bench.conn, golden.doc_ids, table=bench.table) if golden else []
    answers = relevant(of_document, golden) if golden else set()
    if chunk_id is not None:
        found = fetch(bench.conn, [chunk_id], table=bench.table)
        if chunk_id not in found:
            raise InputError(f"no chunk {chunk_id!r} in this corpus; ids look like name#000")
        return _Question(text, query_id, golden if chunk_id in answers else None, (found[chunk_id][0],), None)
    if golden is None:
        raise InputError("a question of your own needs the passage that it should find: name its chunk")
    wanted = tuple(chunk for chunk in of_document if chunk.chunk_id in answers)
    return _Question(text, query_id, golden, wanted, why_undefined(of_document, golden))


# --- other indexes -------------------------------------------------------------------------------------------------


def _reindex(
    lab: Lab, bench: Bench, question: _Question, search: Search, variant: Switch, steps: Steps, *, slow: bool
) -> None:
    """Try one other index, and add what came of it to the search."""
    reason = None
    if not (bench.config.embedder.quick or slow):
        reason = f"the embedder {bench.embedder.name} runs a model, which takes long; it was not asked for"
    elif question.golden is None and variant.setting != HEADERS:
        reason = _BY_ID_ALONE
    name = _named(bench.config, variant)
    if reason is not None:
        search.tried.append(Tried(setting=variant.setting, range=name, values=0, reason=reason))
        return

    def indexing(one: Progress) -> None:
        steps.tell(f"{name}, indexing {one.done} of {one.total} documents")

    with temporary_index(
        lab.connect,
        lab.corpus,
        variant.config.indexing,
        bench.embedder,
        progress=indexing,
        cancelled=steps.cancelled,
    ) as (conn, table):
        other = Bench(conn, table, bench.embedder, variant.config, bench.reranker)
        _try_index(bench.config, other, question, search, variant, steps)


def _try_index(
    base: PipelineConfig, other: Bench, question: _Question, search: Search, variant: Switch, steps: Steps
) -> None:
    steps.tell(_named(base, variant))
    candidates, wanted = Candidates(other), _wanted_in(other, question)
    reached = Probe(candidates, wanted, steps).reached(variant.config, question.text)
    if reached is None:
        reason = None if wanted else "no chunk of this index holds the anchor"
        search.tried.append(Tried(setting=variant.setting, range=_named(base, variant), values=1, reason=reason))
        return
    search.found.append(
        rescued(
            base,
            variant.config,
            cost=Cost.INDEX,
            setting=variant.setting,
            step=_step(base, variant),
            before=search.before,
            after=reached.rank,
            chunk_id=reached.chunk_id,
            effect=search.others.effect(variant.config, (other, candidates)),
        )
    )


def _wanted_in(other: Bench, question: _Question) -> frozenset[str]:
    """The chunks of another index that answer: those that the label finds, or the chunk that was named."""
    if question.golden is None:
        return frozenset(chunk.chunk_id for chunk in question.wanted)
    return frozenset(relevant(chunks_of(other.conn, question.golden.doc_ids, table=other.table), question.golden))


def _values(base: PipelineConfig, variant: Switch) -> Sequence[tuple[str, int, int]]:
    """The numbers of the chunker that differ, with their old and new values."""
    before, after = asdict(base.chunker), asdict(variant.config.chunker)
    return [(name, before[name], new) for name, new in after.items() if before[name] != new]


def _step(base: PipelineConfig, variant: Switch) -> float | None:
    return max((step_between(old, new) for _, old, new in _values(base, variant)), default=None)


def _named(base: PipelineConfig, variant: Switch) -> str:
    """The new values in words."""
    values = [f"chunker.{name} {new}" for name, _, new in _values(base, variant)]
    return ", ".join(values) or f"{HEADERS} {str(variant.config.contextual_headers).lower()}"
