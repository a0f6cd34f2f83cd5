"""What PostgreSQL made of a query or a passage, token by token, in the configuration that the store uses.

The rows are those of ts_debug (PostgreSQL manual 12.8.1, "Configuration Testing").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, cast, get_args

from psycopg import Connection

from retrieval_lab import textquery
from retrieval_lab.diagnosis.dashes import Dash, excluding_dashes, meant
from retrieval_lab.errors import InputError
from retrieval_lab.lexemes import bare, lexemes_of
from retrieval_lab.statements import execute
from retrieval_lab.stored import Stored, as_text
from retrieval_lab.types import TextQuery

MAX_TOKENS: Final = 2_000
"""Tokens that are shown; the rest of a longer text is read all the same."""

Role = Literal["term", "phrase", "excluded", "indexed", "stop word", "blank", "left out"]
"""What became of a token.

Of a query: a `term` that is searched, a part of a `phrase`, or `excluded`; of a passage: `indexed`. A `stop word` is
dropped by the dictionary, a `blank` (space, punctuation, markup) by the parser; `left out` is what a limit of the lab
or of PostgreSQL cut.
"""

# A compound is followed by its parts, which begin at its beginning again.
_COMPOUNDS = frozenset({"asciihword", "hword", "numhword", "url"})
_QUOTED = re.compile(r'"[^"]*"?')
# Between the words of a web search these only part them; in quotes they reach the parser.
_PARTING = str.maketrans(":!&|()", "      ")


@dataclass(frozen=True, slots=True)
class Token:
    """One token: what the parser called it, and what the dictionaries made of it.

    `start` is its place in the text. `type` is the parser's name for its kind, such as `asciiword`, `file` or `int`.
    `dictionary` is the one that knew it, None where none did; `lexemes` is what came out, empty for a stop word.
    """

    start: int
    token: str
    type: str
    description: str
    dictionary: str | None
    lexemes: tuple[str, ...]
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseView:
    """A query as full-text search reads it.

    `text` is what was parsed. `terms`, `phrases` and `excluded` are searched for and left out, as `lexemes.bare` shows
    them; `plain` are the terms without operators. `dashes` are those that were read as exclusions, and `meant` is the
    query that was probably meant, with `meant_terms` what it would find; None and empty without such dashes.
    """

    query: str
    text: str
    text_config: str
    operators: bool
    tokens: tuple[Token, ...]
    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]
    plain: tuple[str, ...]
    dashes: tuple[Dash, ...]
    meant: str | None
    meant_terms: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def stop_words(self) -> tuple[str, ...]:
        """The stop words among the tokens, lower case, each once."""
        return tuple(dict.fromkeys(one.token.lower() for one in self.tokens if one.role == "stop word"))

    def to_dict(self) -> dict[str, Any]:
        """The view as JSON has it; `from_dict` makes an equal one of it."""
        return {**_jsonable(asdict(self)), "stop_words": list(self.stop_words)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ParseView:
        """The view that `to_dict` wrote. Raises InputError when it is broken."""
        found = Stored(data, "")
        lists = ("terms", "phrases", "excluded", "plain", "meant_terms", "notes")
        return cls(
            query=found.text("query"),
            text=found.text("text"),
            text_config=found.text("text_config"),
            operators=found.flag("operators"),
            tokens=found.each("tokens", _read_token),
            dashes=found.each("dashes", _read_dash),
            meant=found.text_or_none("meant"),
            **{key: found.each(key, as_text) for key in lists},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageView:
    """A passage as it is indexed: `text` is what is made into its tsvector, with the heading path where that is."""

    chunk_id: str
    text: str
    text_config: str
    tokens: tuple[Token, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The view as JSON has it; `from_dict` makes an equal one of it."""
        return _jsonable(asdict(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PassageView:
        """The view that `to_dict` wrote. Raises InputError when it is broken."""
        found = Stored(data, "")
        return cls(
            chunk_id=found.text("chunk_id"),
            text=found.text("text"),
            text_config=found.text("text_config"),
            tokens=found.each("tokens", _read_token),
            notes=found.each("notes", as_text),
        )


def parse_query(conn: Connection[Any], query: str, config: str = "english", *, operators: bool = True) -> ParseView:
    """What full-text search makes of any string; `config` and `operators` as for `textquery.parse`."""
    parsed = textquery.parse(conn, query, config, operators=operators)
    plain = textquery.parse(conn, query, config, operators=False) if operators else parsed
    text, _ = textquery.shortened(query)
    dashes = excluding_dashes(conn, text, parsed, config) if operators else ()
    suggested = meant(text, dashes) if dashes else None
    tokens, notes = _tokens(conn, _spoken(text, dashes) if operators else text, config)
    role = _roles(text, parsed, dashes, operators)
    return ParseView(
        query=query,
        text=text,
        text_config=config,
        operators=operators,
        tokens=tuple(Token(start, *row, role(start, row[0], row[4], row[3])) for start, row in tokens),
        terms=_bare(parsed.terms),
        phrases=_bare(parsed.phrases),
        excluded=_bare(parsed.excluded),
        plain=_bare(plain.positive),
        dashes=dashes,
        meant=suggested,
        meant_terms=() if suggested is None else _bare(textquery.parse(conn, suggested, config).positive),
        notes=(*parsed.notes, *notes),
    )


def parse_passage(conn: Connection[Any], chunk_id: str, text: str, config: str = "english") -> PassageView:
    """What full-text search makes of the indexed text of a chunk."""
    tokens, notes = _tokens(conn, text, config)

    def role(dictionary: str | None, lexemes: Sequence[str]) -> Role:
        return "blank" if dictionary is None else "indexed" if lexemes else "stop word"

    rows = tuple(Token(start, *row, role(row[3], row[4])) for start, row in tokens)
    return PassageView(chunk_id=chunk_id, text=text, text_config=config, tokens=rows, notes=notes)


_Row = tuple[str, str, str, str | None, tuple[str, ...]]  # token, type, description, dictionary, lexemes


def _tokens(conn: Connection[Any], text: str, config: str) -> tuple[list[tuple[int, _Row]], tuple[str, ...]]:
    """The first tokens with their places, and what is said about the others."""
    rows = execute(conn, _DEBUG, {"config": config, "text": text, "n": MAX_TOKENS + 1}).fetchall()
    notes = (f"the first {MAX_TOKENS:,} tokens are shown",) if len(rows) > MAX_TOKENS else ()
    return list(_placed(text, rows[:MAX_TOKENS])), notes


def _placed(text: str, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, _Row]]:
    place = 0
    for token, kind, description, dictionary, lexemes in rows:
        start = max(text.find(token, place), place)
        place = start if kind in _COMPOUNDS else start + len(token)
        yield start, (token, kind, description, dictionary, tuple(lexemes or ()))


_DEBUG: Final = """
    SELECT token, alias, description, dictionary::text, lexemes
    FROM ts_debug(%(config)s::text::regconfig, %(text)s) LIMIT %(n)s"""


def _spoken(text: str, dashes: Sequence[Dash]) -> str:
    """The text as its words reach the parser: of equal length, operators and excluding dashes blanked."""
    for dash in dashes:
        run = len(dash.written) - len(dash.written.lstrip("-"))
        text = f"{text[: dash.start]}{' ' * run}{text[dash.start + run :]}"
    pieces, done = [], 0
    for match in _QUOTED.finditer(text):
        pieces += [text[done : match.start()].translate(_PARTING), match[0]]
        done = match.end()
    return "".join([*pieces, text[done:].translate(_PARTING)])


def _roles(
    text: str, parsed: TextQuery, dashes: Sequence[Dash], operators: bool
) -> Callable[[int, str, Sequence[str], str | None], Role]:
    """What became of a token, by its place, itself, its lexemes and its dictionary."""
    terms = {lexeme for term in parsed.terms for lexeme in lexemes_of(term)}
    phrases = {lexeme for phrase in parsed.phrases for lexeme in lexemes_of(phrase)}
    quoted = [match.span() for match in _QUOTED.finditer(text)] if operators else []

    def role(start: int, token: str, lexemes: Sequence[str], dictionary: str | None) -> Role:
        if dictionary is None:
            return "blank"
        if not lexemes:
            return "stop word"
        if any(dash.start <= start < dash.end for dash in dashes):
            return "excluded"
        end = start + len(token)
        in_quotes = any(left <= start and end <= right for left, right in quoted)
        if in_quotes and phrases.intersection(lexemes):
            return "phrase"
        return "term" if terms.intersection(lexemes) else "phrase" if phrases.intersection(lexemes) else "left out"

    return role


def _bare(terms: Sequence[str]) -> tuple[str, ...]:
    return tuple(bare(term) for term in terms)


def _jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """The same with lists for tuples, as JSON has them."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return _jsonable(value)
        return [plain(one) for one in value] if isinstance(value, tuple | list) else value

    return {key: plain(value) for key, value in values.items()}


def _read_token(value: Any, place: str) -> Token:
    data = Stored(value, place)
    role = data.text("role")
    if role not in get_args(Role):
        raise InputError(f"{place}.role is {role!r}; expected one of {', '.join(get_args(Role))}")
    return Token(
        start=data.count("start"),
        token=data.text("token"),
        type=data.text("type"),
        description=data.text("description"),
        dictionary=data.text_or_none("dictionary"),
        lexemes=data.each("lexemes", as_text),
        role=cast(Role, role),
    )


def _read_dash(value: Any, place: str) -> Dash:
    data = Stored(value, place)
    return Dash(
        start=data.count("start"),
        end=data.count("end"),
        written=data.text("written"),
        excluded=data.each("excluded", as_text),
        instead=data.text("instead"),
    )
