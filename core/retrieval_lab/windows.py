"""How much of a text a model reads: its window in tokens, and what lies beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from retrieval_lab.types import Chunk, Truncation

_REMEMBERED_TEXTS = 4096


@runtime_checkable
class Windowed(Protocol):
    """A model that reads a text only up to its window."""

    @property
    def window(self) -> int:
        """The tokens that the model reads, special tokens included."""

    def token_counts(self, texts: Sequence[str], query: str | None = None) -> list[int]:
        """The tokens of each text, special ones included, without truncation.

        With a `query`, those of the pair of it and the text, which share the window.
        """


class TokenCounter:
    """Counts tokens as a model's tokenizer makes them."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is one of the library `tokenizers`, set to truncate at the model's window."""
        self.window = int(tokenizer.truncation["max_length"])
        # A copy: the model goes on truncating.
        self._tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._known: dict[str, int] = {}

    def counts(self, texts: Sequence[str], query: str | None = None) -> list[int]:
        """As `Windowed.token_counts`."""
        asked = texts if query is None else [*texts, query]
        new = [text for text in dict.fromkeys(asked) if text not in self._known]
        if len(self._known) + len(new) > _REMEMBERED_TEXTS:
            self._known.clear()
            new = list(dict.fromkeys(asked))
        encoded = self._tokenizer.encode_batch(new, add_special_tokens=False)
        self._known |= {text: len(one.ids) for text, one in zip(new, encoded, strict=True)}
        special = int(self._tokenizer.num_special_tokens_to_add(query is not None))
        more = special if query is None else special + self._known[query]
        return [self._known[text] + more for text in texts]


def truncations(
    chunks: Iterable[Chunk], embedder: object, indexed: Callable[[Chunk], str], reranker: object, query: str
) -> dict[str, tuple[Truncation, ...]]:
    """The chunks of which a model reads the beginning alone, by id, with the embedder first.

    `indexed` gives what of a chunk is embedded; the reranker reads its text after the query. Models without a window
    read all. Raises as `token_counts` of the two do.
    """
    chunks = list(chunks)
    found: dict[str, tuple[Truncation, ...]] = {}
    reads: list[tuple[str, object, list[str], str | None]] = [
        ("embedder", embedder, [indexed(one) for one in chunks], None),
        ("reranker", reranker, [one.text for one in chunks], query),
    ]
    for by, model, texts, asked in reads:
        if not isinstance(model, Windowed):
            continue
        window = model.window
        for chunk, tokens in zip(chunks, model.token_counts(texts, asked), strict=True):
            if tokens > window:
                found[chunk.chunk_id] = (*found.get(chunk.chunk_id, ()), Truncation(by, tokens, window))
    return found
