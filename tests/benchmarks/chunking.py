"""The chunker against LangChain's splitters on the same documents, at the same size."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.chunker import MAX_CHARS, chunk
from retrieval_lab.types import Document
from tests.benchmarks.timing import Ratio, compare


def ratios(documents: list[Document]) -> Iterator[Ratio]:
    from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

    recursive = RecursiveCharacterTextSplitter(chunk_size=MAX_CHARS, chunk_overlap=200)
    headers = MarkdownHeaderTextSplitter([("#" * level, f"h{level}") for level in range(1, 7)], strip_headers=False)

    def ours() -> None:
        for document in documents:
            chunk(document)

    def split_recursively() -> None:
        for document in documents:
            recursive.split_text(document.text)

    def split_headers_then_recursively() -> None:
        for document in documents:
            recursive.split_documents(headers.split_text(document.text))

    yield compare("chunker / LangChain headers, then recursive", ours, split_headers_then_recursively, rounds=7)
    yield compare("chunker / LangChain recursive alone", ours, split_recursively, rounds=7)
