"""What a retriever is, and what it is made of.

A retriever needs a `name` and `search`, no more. One that can tell more about itself is also `Traceable`: a trace then
shows how it read the query, how the server answered, and where any chunk stands on it.

To add one: a module here with its settings (a subclass of `RetrieverSettings`) and its class, and a line in `registry`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from psycopg import Connection

from retrieval_lab.corpus_index import CorpusIndex, IndexKeeper
from retrieval_lab.embed import QueryVectors
from retrieval_lab.errors import SettingError
from retrieval_lab.store import CHUNKS, Table
from retrieval_lab.types import EVERYTHING, Expansion, Filter, Hit, Place, TextQuery

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class Retriever(Protocol):
    """Anything that finds chunks for a query."""

    @property
    def name(self) -> str:
        """The name of its list."""

    def search(self, query: str, n: int, filter: Filter = EVERYTHING) -> list[Hit]:
        """At most n chunks that the filter lets through, best first, ranks from 1, equal scores by chunk_id."""


@dataclass(frozen=True, slots=True)
class Found:
    """A retriever's list with what a trace keeps of how it was made.

    `matching` is how many chunks it would have without a cut, None where nobody wanted to know.

    `parsed` is the query as full-text search read it, None where that was not asked; `plan` is the server's plan, a
    line each; `notes` says what a person should know about the list. `expansion` is what was searched in the place of
    the query, None where that was the query itself.
    """

    hits: tuple[Hit, ...]
    parsed: TextQuery | None = None
    plan: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    matching: int | None = None
    expansion: Expansion | None = None


@runtime_checkable
class Traceable(Protocol):
    """A retriever that shows how it works."""

    def find(self, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        """What `search` finds; `explain` asks for the server's plan, for `matching` and for how the query is read."""

    def places(self, query: str, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        """Where each of the chunks stands in the whole corpus, or why it stands nowhere."""


def found_by(retriever: Retriever, query: str, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
    """What any retriever finds, with what it can tell about it."""
    if isinstance(retriever, Traceable):
        return retriever.find(query, n, filter, explain=explain)
    return Found(tuple(retriever.search(query, n, filter)))


Terms = Mapping[str, float]
"""A query as the words it is made of, as `ragindex.terms` finds them, and what each counts."""


@runtime_checkable
class TakesTerms(Protocol):
    """A retriever that weighs the words of a query, and so can be given their weights."""

    def find_terms(self, terms: Terms, n: int, filter: Filter = EVERYTHING, *, explain: bool = False) -> Found:
        """As `Traceable.find`, which counts each word as often as it stands in the query."""

    def places_of_terms(self, terms: Terms, chunk_ids: Sequence[str], filter: Filter = EVERYTHING) -> dict[str, Place]:
        """As `Traceable.places`."""


class Indexed(Protocol):
    """What a retriever over an index in memory is built on."""

    @property
    def vectors(self) -> QueryVectors:
        """The vectors of queries."""

    def corpus_index(self) -> CorpusIndex:
        """The index. Raises InputError when it cannot be made."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What retrievers are built on: a connection, the table it reads, and the vectors of queries.

    `plans` remembers plans that are the same for every query, by whatever they depend on; `keeper` has the index of the
    table for retrievers in memory.
    """

    conn: Connection[Any]
    vectors: QueryVectors
    table: Table = CHUNKS
    plans: dict[Hashable, tuple[str, ...]] = field(default_factory=dict)
    keeper: IndexKeeper = field(default_factory=IndexKeeper)

    def corpus_index(self) -> CorpusIndex:
        """The index of the table in memory, as it is now. Raises EnvironmentMissing when the table is missing."""
        return self.keeper.current(self.conn, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverSettings(ABC):
    """One retriever of a pipeline: `n` is the depth of its list, `weight` what the list counts for in fusion.

    `name` names the list; two lists of one pipeline have different names. Raises SettingError.
    """

    kind: ClassVar[str]
    score_name: ClassVar[str] = "score"
    """What the numbers of its list are."""
    by_vectors: ClassVar[bool] = False
    """Whether it finds chunks by their embeddings."""

    name: str
    n: int = 50
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SettingError("name", repr(self.name), "a letter, then letters, digits, - or _, at most 40")
        if self.n < 1:
            raise SettingError("n", self.n, "1 or more")
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise SettingError("weight", self.weight, "0 or more")

    @property
    def extends(self) -> bool:
        """Whether a deeper list always begins with the rows of a shallower one, so that one may be cut to the other."""
        return False

    @abstractmethod
    def build(self, surroundings: Surroundings) -> Retriever:
        """Return the retriever. It is used by one thread, for as long as the connection is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemorySettings(RetrieverSettings):
    """A retriever that searches an index in memory, and so needs no server once there is one.

    `embeds` says whether it compares vectors, and so needs those of the index and the embedder of the queries.
    """

    embeds: ClassVar[bool] = False

    @abstractmethod
    def build(self, surroundings: Indexed) -> Retriever:
        """Return the retriever. It is used by one thread at a time."""
