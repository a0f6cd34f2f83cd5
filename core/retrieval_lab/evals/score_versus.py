"""Several scored TREC runs against the first of them, paired by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval_lab.errors import InputError
from retrieval_lab.evals.comparison import Corrected, compare_measures, corrected
from retrieval_lab.evals.resampling import Array
from retrieval_lab.evals.scoring import Scores, is_count


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSystems:
    """Systems against a baseline over the queries that all have; `excluded` are those that only some have.

    `tables` has the values of the baseline, then of each system, by measure, in the order of `query_ids`; counts are
    left out, since their differences say nothing of quality.
    """

    query_ids: tuple[str, ...]
    excluded: tuple[str, ...]
    tables: tuple[Mapping[str, Array], ...]
    systems: tuple[Corrected, ...]

    def differences(self, measure: str) -> list[Array]:
        """Each system minus the baseline by query."""
        baseline, *systems = (table[measure] for table in self.tables)
        return [values - baseline for values in systems]


def compare_scores(scores: Sequence[Scores]) -> ScoredSystems:
    """All but the first against the first, which were scored with the same measures.

    A query that is not in each of them is left out. Raises InputError when they share no query, or when nothing but
    counts was measured.
    """
    first = scores[0]
    shared = set(first.query_ids).intersection(*(one.query_ids for one in scores[1:]))
    names = [name for name in first.names if not is_count(name)]
    if not shared:
        raise InputError("the runs have no labelled query in common, so there is nothing to compare")
    if not names:
        raise InputError("counts are not compared; name a measure with a value for each query, such as map")
    ids = tuple(query for query in first.query_ids if query in shared)
    every = dict.fromkeys(query for one in scores for query in one.query_ids)
    tables = tuple(_table(one, ids, names) for one in scores)
    found = [compare_measures(table, tables[0], ids) for table in tables[1:]]
    return ScoredSystems(ids, tuple(query for query in every if query not in shared), tables, corrected(found))


def _table(scores: Scores, ids: Sequence[str], names: Sequence[str]) -> dict[str, Array]:
    rows = {query: row for row, query in enumerate(scores.query_ids)}
    places = [rows[query] for query in ids]
    return {name: scores.column(name)[places] for name in names}
