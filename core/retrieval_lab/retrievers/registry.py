"""Every kind of retriever, by the name that a configuration calls it."""

from __future__ import annotations

from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.dense import FlatSearch, IvfSearch
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.tfidf import LsaSearch, TfIdfSearch
from retrieval_lab.retrievers.vector import VectorSearch

RETRIEVERS: dict[str, type[RetrieverSettings]] = {
    settings.kind: settings
    for settings in (
        VectorSearch,
        TextSearch,
        Bm25Search,
        StemmedBm25Search,
        TfIdfSearch,
        LsaSearch,
        FlatSearch,
        IvfSearch,
    )
}
