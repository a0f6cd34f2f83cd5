"""An inverted file: vectors in the lists of their nearest centroids, of which a search reads a few.

Sivic and Zisserman, "Video Google: A Text Retrieval Approach to Object Matching in Videos" (2003); the name is that of
Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search" (2011), 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex.exact import as_vectors, dots, longest, square_distances
from retrieval_lab.ragindex.flat import Found, as_query, contenders, decided, margin
from retrieval_lab.ragindex.kmeans import Centroids, assign, kmeans_pp, lloyd
from retrieval_lab.ragindex.pcg32 import PCG32
from retrieval_lab.ragindex.ranking import Keep, Rows, as_filter, require_count


class IVF:
    """Vectors by their nearest centroid; made by `build`.

    `centroids` has shape (nlist, dims), float64; `lists` holds the rows of each, ascending. The vectors are copied,
    list by list, so that a list is read in one piece.
    """

    def __init__(self, vecs: Vectors, centroids: Centroids, lists: tuple[Rows, ...]) -> None:
        self.centroids = centroids
        self.lists = lists
        self._rows = np.concatenate(lists) if lists else np.zeros(0, dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum([len(one) for one in lists], dtype=np.int64)]).astype(np.int64)
        self._vecs = vecs[self._rows]
        self._most = longest(self._vecs)

    @classmethod
    def build(cls, vecs: Vectors, nlist: int, iters: int, rng: PCG32) -> IVF:
        """The vectors in `nlist` lists: seeds of k-means++, then `iters` rounds of k-means, by Euclidean distance.

        Raises InputError when nlist lies outside 1 to n, iters is negative, or a vector is not finite.
        """
        if nlist < 1 or iters < 0:
            raise InputError(f"{nlist} lists and {iters} rounds; expected at least 1 list and 0 rounds")
        vecs = as_vectors(vecs)
        seeds = kmeans_pp(vecs, nlist, rng)
        centroids = lloyd(vecs, vecs[seeds].astype(np.float64), iters)
        members = assign(vecs, centroids)
        return cls(vecs, centroids, tuple(np.flatnonzero(members == number) for number in range(nlist)))

    def search(self, q: NDArray[Any], k: int, nprobe: int, keep: Keep | None = None) -> Found:
        """As `flat_search`, in the `nprobe` lists whose centroids are nearest to the query; equals it with all of them.

        Raises InputError as it does, and when nprobe is below 1.
        """
        require_count(k)
        if nprobe < 1:
            raise InputError(f"{nprobe} lists were to be read; expected 1 or more")
        query = as_query(q, self._vecs.shape[1])
        distances = square_distances(self.centroids, np.arange(len(self.centroids)), query)
        probed = np.sort(np.argsort(distances, kind="stable")[:nprobe]).tolist()
        parts = [slice(int(self._starts[one]), int(self._starts[one + 1])) for one in probed]
        narrow = query.astype(np.float32)
        rough = np.concatenate([self._vecs[part] @ narrow for part in parts])
        places = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        rows = self._rows[places]
        chosen = contenders(rough, k, _on(rows, as_filter(keep, len(self._rows))), margin(query, self._most))
        return decided(dots(self._vecs, places[chosen], query), rows[chosen], k)


def _on(rows: Rows, keep: Any) -> Any:
    """A filter of rows as one of places in a list of rows."""
    if keep is None:
        return None
    if callable(keep):
        return lambda place: keep(int(rows[place]))
    return keep[rows]
