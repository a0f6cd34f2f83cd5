"""Two runs of one golden set against each other, paired by query."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from retrieval_lab.errors import InputError
from retrieval_lab.evals.comparison import Comparison, compare_measures
from retrieval_lab.evals.records import QueryRecord
from retrieval_lab.evals.resampling import Array
from retrieval_lab.evals.runs import Run
from retrieval_lab.evals.summary import Latency, latency, table
from retrieval_lab.types import GoldenQuery

_SHOWN_IDS = 5
_HASH_CHARS = 12


@dataclass(frozen=True, slots=True)
class Change:
    """A setting, by its key with dots, or a version, with its value in the baseline and in the system.

    None stands for a setting that one of them does not have, as for one that is null.
    """

    key: str
    baseline: Any
    system: Any


@dataclass(frozen=True, slots=True)
class Move:
    """A query whose first relevant chunk has another rank in the final list; None is beyond its cut."""

    query_id: str
    query: str
    kind: str
    baseline: int | None
    system: int | None


@dataclass(frozen=True, slots=True)
class Versus:
    """A system against a baseline.

    `measures` holds those that both runs have, over the `queries` that have a relevant chunk in both; `excluded` names
    the others. `changes` is what differs between the configurations, then between the versions. `moves` are the queries
    that moved: those gained first, then those lost, then the others, the largest change of 1 / rank first. `warnings`
    says what else may have made the difference.
    """

    queries: int
    measures: Mapping[str, Comparison]
    changes: tuple[Change, ...]
    moves: tuple[Move, ...]
    excluded: tuple[str, ...]
    latency: tuple[Latency, Latency]
    """Of the baseline and of the system."""
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON has it."""
        return {
            "queries": self.queries,
            "excluded": list(self.excluded),
            "measures": {name: asdict(one) for name, one in self.measures.items()},
            "changes": [asdict(change) for change in self.changes],
            "moves": [asdict(move) for move in self.moves],
            "latency": dict(zip(("baseline", "system"), map(asdict, self.latency), strict=True)),
            "warnings": list(self.warnings),
        }


def versus(baseline: Run, system: Run) -> Versus:
    """The system's run against the baseline's, differences system minus baseline.

    Raises InputError when the two are of other golden sets or cuts, or no query has a relevant chunk in both.
    """
    pairs = _pairs(baseline, system)
    paired = _defined(pairs)
    names = [name for name in paired[0][1].measures if name in paired[0][0].measures]
    befores, afters = zip(*paired, strict=True)
    ids = [after.query_id for after in afters]
    return Versus(
        queries=len(paired),
        measures=compare_measures(table(afters, names), table(befores, names), ids),
        changes=tuple(_changes(baseline, system)),
        moves=tuple(sorted(_moves(paired), key=_importance)),
        excluded=tuple(
            after.query_id
            for before, after in pairs
            if not (before.measures and after.measures) and after.level != "none"
        ),
        latency=(latency(baseline), latency(system)),
        warnings=tuple(_warnings(baseline, system)),
    )


def differences(baseline: Run, system: Run, measure: str) -> Array:
    """The measure of the system minus that of the baseline, for each query that `versus` compares, in its order.

    Raises InputError as `versus` does, and when one of the two does not have the measure.
    """
    paired = _defined(_pairs(baseline, system))
    names = [name for name in paired[0][1].measures if name in paired[0][0].measures]
    if measure not in names:
        raise InputError(f"the runs have no measure {measure!r}; both have {', '.join(names)}")
    return np.array([after.measures[measure] - before.measures[measure] for before, after in paired])


def _pairs(baseline: Run, system: Run) -> list[tuple[QueryRecord, QueryRecord]]:
    require_comparable(baseline, system.queries, golden_hash=system.corpus.golden_hash, k=system.k)
    theirs = {record.query_id: record for record in baseline.queries}
    other = theirs.keys() ^ {record.query_id for record in system.queries}
    if other:
        raise InputError(f"only one of the two runs holds {_listed(other)}; evaluate both again")
    return [(theirs[after.query_id], after) for after in system.queries]


def _defined(pairs: Sequence[tuple[QueryRecord, QueryRecord]]) -> list[tuple[QueryRecord, QueryRecord]]:
    paired = [(before, after) for before, after in pairs if before.measures and after.measures]
    if not paired:
        raise InputError("no query has a relevant chunk in both runs, so there is nothing to compare")
    return paired


def require_comparable(
    baseline: Run, queries: Sequence[QueryRecord] | Sequence[GoldenQuery], *, golden_hash: str, k: int
) -> None:
    """Raises InputError, which says what differs, when no run of these queries, labels and cut compares with this one.

    `golden_hash` is the `hash_of_golden` of the queries.
    """
    if baseline.corpus.golden_hash != golden_hash:
        raise InputError(
            f"the baseline {baseline.name!r} of corpus {baseline.corpus.folder!r} is of another golden set:"
            f" {'; '.join(_other_golden(baseline, queries))}; compare runs of the same queries and labels"
        )
    if baseline.k != k:
        raise InputError(
            f"the baseline {baseline.name!r} is cut at {baseline.k}, the system at {k}; evaluate both with the same k"
        )


def _other_golden(baseline: Run, queries: Sequence[QueryRecord] | Sequence[GoldenQuery]) -> Iterator[str]:
    """What differs between the queries, as far as a run remembers them."""
    theirs = {one.query_id: (one.query, one.kind) for one in baseline.queries}
    ours = {one.query_id: (one.query, one.kind) for one in queries}
    changed = [query_id for query_id in theirs.keys() & ours.keys() if theirs[query_id] != ours[query_id]]
    if theirs.keys() - ours.keys():
        yield f"{_listed(theirs.keys() - ours.keys())} in the baseline only"
    if ours.keys() - theirs.keys():
        yield f"{_listed(ours.keys() - theirs.keys())} in the system only"
    if changed:
        yield f"another text or kind of {_listed(changed)}"
    if theirs == ours:
        yield "the same queries with other labels (doc_id, anchor or relevant)"


def _listed(query_ids: Collection[str]) -> str:
    more = f" and {len(query_ids) - _SHOWN_IDS} more" if len(query_ids) > _SHOWN_IDS else ""
    return f"{', '.join(sorted(query_ids)[:_SHOWN_IDS])}{more}"


def _changes(baseline: Run, system: Run) -> Iterator[Change]:
    yield from differing(baseline.config.to_dict(), system.config.to_dict())
    before, after = ([retriever.name for retriever in run.config.retrievers] for run in (baseline, system))
    if before != after and sorted(before) == sorted(after):
        yield Change("retrievers", before, after)  # the same lists in another order
    yield from differing(dict(baseline.fingerprint.versions), dict(system.fingerprint.versions), "versions.")


def differing(baseline: Mapping[str, Any], system: Mapping[str, Any], prefix: str = "") -> Iterator[Change]:
    """What differs between two nested mappings, such as `PipelineConfig.to_dict` makes, keys joined with dots.

    Both are walked together, so that what only one has stands in its section.
    """
    for key in dict.fromkeys([*baseline, *system]):
        before, after = baseline.get(key), system.get(key)
        if isinstance(before, Mapping) or isinstance(after, Mapping):
            yield from differing(before or {}, after or {}, f"{prefix}{key}.")
        elif before != after:
            yield Change(f"{prefix}{key}", before, after)


def _moves(paired: Sequence[tuple[QueryRecord, QueryRecord]]) -> Iterator[Move]:
    for before, after in paired:
        ranks = before.ranks["final"], after.ranks["final"]
        if ranks[0] != ranks[1]:
            yield Move(after.query_id, after.query, after.kind, *ranks)


def _importance(move: Move) -> tuple[int, float]:
    """What puts moves in order: the group first, then how much 1 / rank changed."""
    before, after = (1 / rank if rank else 0.0 for rank in (move.baseline, move.system))
    group = 0 if move.baseline is None else 1 if move.system is None else 2
    return group, -abs(after - before)


def _warnings(baseline: Run, system: Run) -> Iterator[str]:
    if baseline.corpus.documents_hash != system.corpus.documents_hash:
        searched = (
            f"{run.corpus.documents} documents with the hash {run.corpus.documents_hash[:_HASH_CHARS]}"
            for run in (baseline, system)
        )
        yield f"the runs searched other documents ({', then '.join(searched)}), which may have made the difference"
