"""The portable index: a folder of four files that any program can read, searched without a server.

The format of `meta.json`, `docs.jsonl`, `vectors.f32` and `bm25.idx` is described in docs/index-format.md.
"""

from retrieval_lab.ragindex.bm25 import BM25
from retrieval_lab.ragindex.chunks import IndexedChunk, Meta, fingerprint
from retrieval_lab.ragindex.errors import FormatError, IndexError_
from retrieval_lab.ragindex.flat import flat_search, recall
from retrieval_lab.ragindex.hybrid import Hybrid, IndexHit
from retrieval_lab.ragindex.index import Index
from retrieval_lab.ragindex.ivf import IVF
from retrieval_lab.ragindex.kmeans import kmeans_pp
from retrieval_lab.ragindex.pcg32 import PCG32, fnv1a64
from retrieval_lab.ragindex.terms import terms
from retrieval_lab.ragindex.varint import put_uvarint, uvarint
from retrieval_lab.types import Filter

__all__ = [
    "BM25",
    "IVF",
    "PCG32",
    "Filter",
    "FormatError",
    "Hybrid",
    "Index",
    "IndexError_",
    "IndexHit",
    "IndexedChunk",
    "Meta",
    "fingerprint",
    "flat_search",
    "fnv1a64",
    "kmeans_pp",
    "put_uvarint",
    "recall",
    "terms",
    "uvarint",
]
