"""Vector search over the index in memory: exactly, and through an inverted file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import SettingError
from retrieval_lab.places import NOTHING_TO_EMBED, ZERO_VECTOR
from retrieval_lab.ragindex import IVF, PCG32, flat_search, fnv1a64
from retrieval_lab.ragindex.exact import as_vectors, dots, longest
from retrieval_lab.ragindex.flat import Found
from retrieval_lab.ragindex.index import ITERS, NLIST
from retrieval_lab.ragindex.ranking import Mask
from retrieval_lab.retrievers.base import Indexed, InMemorySettings, RetrieverSettings
from retrieval_lab.retrievers.rows import RowRetriever, Scored

NPROBE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSearch(InMemorySettings):
    """Chunks by cosine similarity, the query against every vector in memory."""

    kind: ClassVar[str] = "flat"
    score_name: ClassVar[str] = "cosine"
    by_vectors: ClassVar[bool] = True
    embeds: ClassVar[bool] = True

    name: str = "flat"

    @property
    def extends(self) -> bool:
        return True

    def build(self, surroundings: Indexed) -> FlatRetriever:
        return FlatRetriever(self.name, surroundings)


Unit = NDArray[np.float64]
"""A query's vector of length 1, shape (dims,): its products with the index's vectors are cosines."""


class FlatRetriever(RowRetriever[Unit | None]):
    """Exact search; a query is None where there is nothing to embed."""

    def _method(self) -> str:
        return "every vector"

    def _asked(self, query: str) -> Unit | None:
        vector = self._on.vectors.of(query)
        if vector is None:
            return None
        wide = vector.astype(np.float64)
        unit: Unit = wide / np.sqrt(wide @ wide)
        return unit

    def _scored(self, asked: Unit | None) -> Scored:
        vecs = as_vectors(self._corpus.index.vecs)
        if asked is None:
            nothing = np.zeros(len(vecs), dtype=np.bool_)
            return Scored(nothing, lambda: np.zeros(len(vecs)), NOTHING_TO_EMBED, "nothing to embed in this query")
        reachable: Mask = self._corpus.once("reachable", lambda: np.any(vecs != 0, axis=1))
        return Scored(reachable, lambda: dots(vecs, np.arange(len(vecs)), asked), ZERO_VECTOR)

    def _listed(self, asked: Unit | None, scored: Scored, n: int, keep: Mask) -> Found:  # noqa: ARG002
        return [] if asked is None else flat_search(self._corpus.index.vecs, asked, n, keep, most=self._longest())

    def _longest(self) -> float:
        return self._corpus.once("longest", lambda: longest(as_vectors(self._corpus.index.vecs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class IvfSearch(InMemorySettings):
    """Chunks by cosine similarity in the `nprobe` of `nlist` lists whose centroids are nearest (`ragindex.IVF`)."""

    kind: ClassVar[str] = "ivf"
    score_name: ClassVar[str] = "cosine"
    by_vectors: ClassVar[bool] = True
    embeds: ClassVar[bool] = True

    name: str = "ivf"
    nlist: int = NLIST
    nprobe: int = NPROBE

    def __post_init__(self) -> None:
        RetrieverSettings.__post_init__(self)
        if self.nlist < 1:
            raise SettingError("nlist", self.nlist, "1 or more")
        if not 1 <= self.nprobe <= self.nlist:
            raise SettingError("nprobe", self.nprobe, f"1 to {self.nlist}, the number of lists", also="nlist")

    @property
    def extends(self) -> bool:
        return True  # the lists that are read do not depend on how many rows are asked for

    def build(self, surroundings: Indexed) -> IvfRetriever:
        return IvfRetriever(self.name, surroundings, self.nlist, self.nprobe)


class IvfRetriever(FlatRetriever):
    """Search in some lists of an inverted file; the place of a row is that of exact search."""

    def __init__(self, name: str, on: Indexed, nlist: int, nprobe: int) -> None:
        super().__init__(name, on)
        self._nlist = nlist
        self._nprobe = nprobe

    def _method(self) -> str:
        return f"{min(self._nprobe, self._lists)} of {self._lists} lists of an inverted file"

    @property
    def _lists(self) -> int:
        """How many lists there are: fewer than asked for where the index has fewer rows."""
        return min(self._nlist, self._corpus.index.meta.n_chunks)

    def _ivf(self) -> IVF:
        """Seeded by the index's id, so that an index has one. Raises InputError without rows."""
        index, lists = self._corpus.index, self._lists
        seed = PCG32(fnv1a64(index.meta.index_id))
        return self._corpus.once(("ivf", lists), lambda: IVF.build(index.vecs, lists, ITERS, seed))

    def _listed(self, asked: Unit | None, scored: Scored, n: int, keep: Mask) -> Found:  # noqa: ARG002
        return [] if asked is None or not len(keep) else self._ivf().search(asked, n, self._nprobe, keep)

    def _missing(self, returned: int, n: int, matching: int) -> str | None:
        if returned >= min(n, matching):
            return None
        rows = f"the lists that were read hold {returned} of {min(n, matching)} rows"
        return f"{rows}; nprobe: {self._nlist} returns them all"
