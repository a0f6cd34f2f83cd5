"""Vector search over pgvector, exactly or through the HNSW index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from retrieval_lab.errors import SettingError
from retrieval_lab.hybrid import MAX_EF_SEARCH, Scan, count_embedded, nearest, nearest_explained
from retrieval_lab.places import vector_places
from retrieval_lab.retrievers.base import Found, RetrieverSettings, Surroundings
from retrieval_lab.types import EVERYTHING, Filter, Hit, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSearch(RetrieverSettings):
    """Chunks by cosine similarity to the query; `scan` is `exact` or `hnsw`."""

    kind: ClassVar[str] = "vector"
    score_name: ClassVar[str] = "cosine"
    by_vectors: ClassVar[bool] = True

    name: str = "vector"
    scan: Scan = "exact"

    def __post_init__(self) -> None:
        RetrieverSettings.__post_init__(self)
        if self.scan == "hnsw" and self.n > MAX_EF_SEARCH:
            raise SettingError(
                "scan", "hnsw", f"exact, since an HNSW scan yields {MAX_EF_SEARCH} rows at most, not {self.n}"
            )

    @property
    def extends(self) -> bool:
        return self.scan == "exact"  # an HNSW scan looks in more places for a longer list

    def build(self, surroundings: Surroundings) -> VectorRetriever:
        return VectorRetriever(self.name, self.scan, surroundings)


class VectorRetriever:
    """`hybrid.vector_search` as a retriever; `scan` None leaves the choice to the planner."""

    def __init__(self, name: str, scan: Scan | None, surroundings: Surroundings) -> None:
        self.name = name
        self._scan = scan
        self._on = surroundings

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        return list(self.find(query, n, filter).hits)

    def find(self, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        vector = self._on.vectors.of(query)
        if vector is None:
            return Found((), notes=(f"{self.name}: nothing to embed in this query",), matching=0)
        # Where the scan is forced, the plan does not depend on the vector; a filter may leave an HNSW scan short.
        kind = (self._scan, n, filter)
        settled = self._scan == "exact" or (self._scan == "hnsw" and not filter)
        known = self._on.plans.get(kind) if settled else None
        hits, plan = nearest_explained(
            self._on.conn,
            vector,
            n,
            scan=self._scan,
            table=self._on.table,
            filter=filter,
            explain=explain and known is None,
        )
        if explain and settled:
            plan = self._on.plans.setdefault(kind, known or plan)
        matching = self._matching(len(hits), n, filter, explain)
        return Found(tuple(hits), plan=plan, notes=self._missing(len(hits), n, matching), matching=matching)

    def places(self, query: str, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        return vector_places(self._on.conn, self._on.vectors.of(query), chunk_ids, table=self._on.table, filter=filter)

    def through_index(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        """At most n chunks, and no more than MAX_EF_SEARCH, as the HNSW index lists them, however this one scans."""
        vector = self._on.vectors.of(query)
        if vector is None:
            return []
        depth = min(n, MAX_EF_SEARCH)
        return nearest(self._on.conn, vector, depth, scan="hnsw", table=self._on.table, filter=filter)

    def _matching(self, returned: int, n: int, filter: Filter, explain: bool) -> int | None:
        """Counted for a trace, and where an index scan may have ended before its list was full."""
        if not explain and (self._scan != "hnsw" or returned == n):
            return None
        return count_embedded(self._on.conn, table=self._on.table, filter=filter)

    def _missing(self, returned: int, n: int, matching: int | None) -> tuple[str, ...]:
        """Deleted rows take places of an index scan's list until the next vacuum."""
        if self._scan != "hnsw" or matching is None or returned >= min(n, matching):
            return ()
        rows = f"the HNSW scan returned {returned} of {min(n, matching)} rows"
        return (f"{self.name}: {rows}; scan: exact returns them all",)
