"""The search for changes of the query and of settings that bring a missed passage into the final list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from retrieval_lab import textquery
from retrieval_lab.assembly import Bench
from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.rescue import Cost, Rescue, Tried, rescued, step_between
from retrieval_lab.diagnosis.rescue_effect import Others
from retrieval_lab.diagnosis.rescue_grid import Dial, Switch, dials, switches
from retrieval_lab.diagnosis.rescue_kept import Candidates
from retrieval_lab.diagnosis.rescue_terms import DROPPED_TERMS, Edit, terms, with_a_term, without_a_term
from retrieval_lab.errors import Cancelled
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.types import Chunk, GoldenQuery

DROP = "drop a term"
ADD = "add a term"


@dataclass(frozen=True, slots=True)
class Reached:
    """The rank of the first wanted passage in a list, and which it is."""

    rank: int
    chunk_id: str


class Steps:
    """Tells how much is done, and stops the work when it was cancelled."""

    def __init__(self, progress: Callable[[int, int, str], None], cancelled: Callable[[], bool]) -> None:
        self.total = 0
        self._done = 0
        self._progress = progress
        self._cancelled = cancelled

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """One part of the work. Raises Cancelled before it begins."""
        self.tell(what)
        self.check()
        yield
        self._done += 1

    def tell(self, what: str) -> None:
        """What is going on."""
        self._progress(self._done, self.total, what)

    def cancelled(self) -> bool:
        """Whether the work is to stop."""
        return self._cancelled()

    def check(self) -> None:
        """Raises Cancelled when the work is to stop."""
        if self._cancelled():
            raise Cancelled(f"the search for rescues stopped after {self._done} of {self.total} steps")


class Probe:
    """Where the wanted passages come to stand in the pipelines over one index."""

    def __init__(self, candidates: Candidates, wanted: frozenset[str], steps: Steps) -> None:
        self._candidates = candidates
        self._wanted = wanted
        self._steps = steps
        self._known: dict[tuple[object, ...], Reached | None] = {}

    def reached(self, config: PipelineConfig, query: str) -> Reached | None:
        """The first wanted passage of the final list. Raises Cancelled."""
        self._steps.check()
        pipeline = self._candidates.pipeline(config)
        pool = tuple(row.chunk_id for row in pipeline.fused(query)[: pipeline.n])
        if self._wanted.isdisjoint(pool):
            return None
        # What comes after the pool depends on nothing else.
        key = query, pool, config.reranker, config.mmr_lambda, config.top_k
        if key not in self._known:
            final = pipeline.run(query).final
            found = (Reached(row.rank, row.chunk_id) for row in final if row.chunk_id in self._wanted)
            self._known[key] = next(found, None)
        return self._known[key]

    def uncut(self, config: PipelineConfig, query: str) -> int | None:
        """The rank of the first wanted passage in the order that the final list has without its cut."""
        found = self.reached(replace(config, top_k=config.fusion.n), query)
        return None if found is None else found.rank


class Search:
    """The rescues of one question over the index of the bench, whose configuration misses it.

    `found` and `tried` grow while `run` works.
    """

    def __init__(
        self, bench: Bench, query: str, wanted: Sequence[Chunk], golden: Sequence[GoldenQuery], steps: Steps
    ) -> None:
        """`wanted` are the passages any of which answers, `golden` the queries that may be gained or lost."""
        self.found: list[Rescue] = []
        self.tried: list[Tried] = []
        self._bench = bench
        self._query = query
        self._wanted = wanted
        self._steps = steps
        candidates = Candidates(bench)
        self.others = Others(bench, candidates, golden, steps.check)
        self._probe = Probe(candidates, frozenset(chunk.chunk_id for chunk in wanted), steps)
        self.before = self._probe.uncut(bench.config, query)
        self._dials = dials(bench.config, candidates.depth)
        self._switches = list(switches(bench.config))

    @property
    def is_miss(self) -> bool:
        """Whether the passage is not in the final list."""
        return self.before is None or self.before > self._bench.config.top_k

    @property
    def steps(self) -> int:
        """How many steps `run` takes."""
        return 2 + len(self._dials) + len(self._switches)

    def run(self) -> None:
        """Try everything. Raises Cancelled."""
        with self._steps.step(DROP):
            self._drop()
        with self._steps.step(ADD):
            self._add()
        for dial in self._dials:
            with self._steps.step(dial.setting):
                self._turn(dial)
        for switch in self._switches:
            with self._steps.step(switch.setting):
                self._switch(switch)

    # --- the query -------------------------------------------------------------------------------------------------

    def _drop(self) -> None:
        number = len(terms(self._query))
        edits = without_a_term(self._query)
        reason = None
        if number > DROPPED_TERMS:
            reason = f"the query has {number} terms; only the first {DROPPED_TERMS} were left out"
        elif not edits:
            reason = "no word would be left" if number else "the query has no term"
        self._edit(DROP, edits, "each term of the query", reason)

    def _add(self) -> None:
        conn, config = self._bench.conn, self._bench.table.text_config
        operators = all(one.operators for one in self._bench.config.retrievers if isinstance(one, TextSearch))
        parsed = textquery.parse(conn, self._query, config, operators=operators)
        edits = with_a_term(conn, self._query, parsed, self._wanted, self._bench.table)
        reason = None if edits else "the passage has no term that the query lacks"
        self._edit(ADD, edits, "the rarest terms of the passage", reason)

    def _edit(self, setting: str, edits: Sequence[Edit], tried: str, reason: str | None) -> None:
        config = self._bench.config
        before = len(self.found)
        for edit in edits:
            reached = self._probe.reached(config, edit.query)
            if reached is not None:
                cost = Cost.QUERY if edit.action == "drop" else Cost.HINT
                self._keep(cost, setting, config, reached, edit=edit)
        if len(self.found) == before:
            self.tried.append(Tried(setting=setting, range=tried, values=len(edits), reason=reason))

    # --- settings --------------------------------------------------------------------------------------------------

    def _turn(self, dial: Dial) -> None:
        failed, values = dial.first - dial.sign, 0
        for unit in dial.rungs():
            values += dial.config(dial.value(unit)) is not None
            if self._at(dial, unit) is not None:
                between = range(failed + dial.sign, unit, dial.sign)
                self._keep_turned(dial, next((one for one in between if self._at(dial, one)), unit))
                return
            failed = unit
        tried = f"{dial.value(dial.first):g} to {dial.value(failed):g}"
        self.tried.append(Tried(setting=dial.setting, range=tried, values=values))

    def _at(self, dial: Dial, unit: int) -> Reached | None:
        config = dial.config(dial.value(unit))
        return None if config is None else self._probe.reached(config, self._query)

    def _keep_turned(self, dial: Dial, unit: int) -> None:
        value = dial.value(unit)
        config, reached = dial.config(value), self._at(dial, unit)
        if config is None or reached is None:
            return
        # All depths at once may come to what one of them did.
        if not any(one.config == config for one in self.found):
            self._keep(Cost.VALUE, dial.setting, config, reached, step=step_between(dial.now, value))

    def _switch(self, switch: Switch) -> None:
        reached = self._probe.reached(switch.config, self._query)
        if reached is None:
            self.tried.append(Tried(setting=switch.setting, range="off", values=1))
        else:
            self._keep(Cost.STAGE, switch.setting, switch.config, reached)

    def _keep(
        self,
        cost: Cost,
        setting: str,
        config: PipelineConfig,
        reached: Reached,
        *,
        step: float | None = None,
        edit: Edit | None = None,
    ) -> None:
        self.found.append(
            rescued(
                self._bench.config,
                config,
                cost=cost,
                setting=setting,
                step=step,
                edit=edit,
                before=self.before,
                after=reached.rank,
                chunk_id=reached.chunk_id,
                effect=None if edit else self.others.effect(config),
            )
        )
