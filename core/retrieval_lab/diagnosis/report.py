"""A journey and a parse view as text, for terminals and pipes: the same lines at every width, nothing that steers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from retrieval_lab.diagnosis.displacement import ANSWERS_FROM, Above, Displacement
from retrieval_lab.diagnosis.journey import Fused, Journey, OnList, OnTextList, OnVectorList, Reranked
from retrieval_lab.diagnosis.nearby import Nearby
from retrieval_lab.diagnosis.parse_view import ParseView, PassageView, Token
from retrieval_lab.learned import FeatureScore
from retrieval_lab.many_lists import EACH, found_in
from retrieval_lab.mmr import Pick
from retrieval_lab.rerankers import TermScore, sigmoid
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.registry import RETRIEVERS
from retrieval_lab.settings import ModelReranker
from retrieval_lab.similar import THRESHOLD
from retrieval_lab.text import printable
from retrieval_lab.types import GoldenQuery

_SHOWN_ABOVE = 10
_SHOWN_CHARS = 200
_COLUMN = 10
_SHOWN_DOCUMENTS = 5


def journey_report(journey: Journey) -> str:
    """The journey stage by stage, then what stands above the passage; lines without a line break at the end."""
    return "\n".join(printable(line).rstrip() for line in _journey(journey))


def parse_report(view: ParseView | PassageView) -> str:
    """The tokens as a table, then, of a query, what is searched, what is left out, and what was probably meant."""
    return "\n".join(printable(line).rstrip() for line in _parse(view))


def _journey(journey: Journey) -> Iterator[str]:
    yield _row("passage", _passage(journey))
    name = f"{journey.golden.query_id} " if journey.golden else ""
    yield _row("query", f'{name}"{_short(journey.query)}"')
    if journey.golden:
        yield from _label(journey, journey.golden)
    if journey.chunk is not None or journey.lost_at is not None:
        fate = "not lost" if journey.lost_at is None else f"{journey.lost_at}: {journey.reason}"
        yield _row("lost at", fate)
    if journey.chunk is not None:
        yield ""
        yield from _stages(journey)
    elif journey.anchor:
        for part in journey.anchor.parts:
            yield _row("", f'{part.chunk_id} holds "{_short(part.text)}"')
    yield ""
    yield from _displacement(journey.displacement, journey)


def _passage(journey: Journey) -> str:
    if journey.chunk is None:
        return "–"
    path = f"  {journey.chunk.heading_path}" if journey.chunk.heading_path else ""
    return f"{journey.chunk.chunk_id}{path}"


def _label(journey: Journey, golden: GoldenQuery) -> Iterator[str]:
    """What the golden query wants: the passage with an anchor, one of graded documents, or nothing."""
    if golden.level == "chunk":
        yield _row("anchor", f'"{_short(golden.anchor)}"{_anchor(journey)}')
    elif golden.level == "document":
        graded = [f"{doc_id} (grade {golden.grades[doc_id]})" for doc_id in golden.doc_ids]
        more = f" and {len(graded) - _SHOWN_DOCUMENTS} more" if len(graded) > _SHOWN_DOCUMENTS else ""
        yield _row("wanted", f"{', '.join(graded[:_SHOWN_DOCUMENTS])}{more}")
    else:
        yield _row("wanted", f"nothing: {journey.reason}")


def _anchor(journey: Journey) -> str:
    if journey.anchor is None:
        return ", which this passage does not hold"
    others = [one for one in journey.anchor.chunk_ids if one != journey.chunk_id]
    return f", which {', '.join(others)} {'holds' if len(others) == 1 else 'hold'} too" if others else ""


# --- the stages ----------------------------------------------------------------------------------------------------


def _stages(journey: Journey) -> Iterator[str]:
    for name, one in journey.lists.items():
        if len(name) >= _COLUMN:
            yield name
        yield _stage(name if len(name) < _COLUMN else "", one.rank, "; ".join(_list(one)))
        if isinstance(one, OnTextList):
            yield from _terms(one)
            if one is journey.text:
                yield from _nearby(journey.nearby)
    yield from _fused(journey.fused)
    yield from _reranked(journey.reranked)
    yield from _mmr(journey.mmr)
    outside = f"beyond the first {journey.top_k}" if journey.fused else "never in the pool"
    yield _stage("final", journey.final_rank, "in the prompt" if journey.in_prompt else outside)


def _list(one: OnList) -> Iterator[str]:
    if one.score is not None:
        kind = RETRIEVERS.get(one.kind, RetrieverSettings)  # a journey from a file may have others
        yield f"{kind.score_name} {one.score:.4f}"
    if one.reason:
        yield one.reason
    elif one.listed is None:
        yield f"{'not on' if one.rank is not None and one.rank <= one.n else 'beyond'} the list of {one.n}"
    else:
        yield f"number {one.listed} of the list of {one.n}"
    if one.weight != 1:
        yield f"weight {one.weight:g}"
    if isinstance(one, OnVectorList):
        lacking = f"not among the first {one.index_depth} of the HNSW index"
        yield lacking if one.index_rank is None else f"HNSW index rank {one.index_rank}"


def _terms(one: OnTextList) -> Iterator[str]:
    for name, found in (("matched", one.matched), ("absent", one.absent), ("excluded by", one.excluded)):
        if found:
            yield _detail(f"{name}: {', '.join(found)}")
    if one.apart:
        yield _detail(f"of the absent phrases it holds, but not as a phrase: {', '.join(one.apart)}")
    if one.stop_words:
        yield _detail(f"stop words that it holds, and search drops: {', '.join(one.stop_words)}")


def _nearby(near: Nearby | None) -> Iterator[str]:
    """Where the absent words stand beside the passage."""
    if near is not None and near.heading:
        yield _detail(f"in its heading path: {', '.join(near.heading)}")
    for one in near.neighbours if near is not None else ():
        if one.holds:
            yield _detail(f"in {one.chunk_id} beside it: {', '.join(one.holds)}")


def _fused(fused: Fused | None) -> Iterator[str]:
    if fused is None:
        yield _stage("fused", None, "on no list that counts")
        return
    parts = " + ".join(f"{name} {part:.5f}" for name, part in fused.parts.items())
    beyond = f"; beyond the pool of {fused.n}" if fused.rank > fused.n else ""
    yield _stage("fused", fused.rank, f"score {fused.score:.5f} = {parts}{beyond}")


def _probability(reranked: Reranked) -> str:
    """What the logit of a cross-encoder means."""
    return f", probability {sigmoid(reranked.score):.3f}" if reranked.kind == ModelReranker.kind else ""


def _reranked(reranked: Reranked | None) -> Iterator[str]:
    if reranked is None:
        return
    yield _stage("reranked", reranked.rank, f"{reranked.kind}: score {reranked.score:.4f}{_probability(reranked)}")
    if reranked.terms:
        yield _detail(f"length factor {reranked.terms[0].length_factor:.3f}")
        yield from map(_detail, _table([_TERM_TITLES, *map(_term, reranked.terms)], "<>>>>"))
    if reranked.learned is not None:
        parts = reranked.learned
        log_odds = parts.intercept + sum(one.contribution for one in parts.features)
        yield _detail(f"log-odds {log_odds:.3f}: intercept {parts.intercept:.3f} and")
        yield from map(_detail, _table([_FEATURE_TITLES, *map(_feature, parts.features)], "<>>>>"))


_TERM_TITLES = ("term", "tf", "df", "idf", "adds")


def _term(one: TermScore) -> tuple[str, ...]:
    return one.term, str(one.tf), str(one.df), f"{one.idf:.3f}", f"{one.contribution:.3f}"


_FEATURE_TITLES = ("feature", "value", "standardised", "coefficient", "adds")


def _feature(one: FeatureScore) -> tuple[str, ...]:
    numbers = (one.value, one.standardised, one.coefficient, one.contribution)
    return one.feature, *(f"{number:.3f}" for number in numbers)


def _mmr(pick: Pick | None) -> Iterator[str]:
    if pick is None:
        return
    because = "" if pick.because is None else f" for its cosine {pick.cosine:.3f} to {pick.because}"
    values = f"relevance {pick.relevance:.3f}, penalty {pick.penalty:.3f}{because}; value {pick.value:.3f}"
    yield _stage("mmr", pick.rank, values)


# --- what stands above ---------------------------------------------------------------------------------------------


def _displacement(found: Displacement, journey: Journey) -> Iterator[str]:
    if not found.above:
        yield f"nothing stands above it in the {found.stage} list"
        return
    many = "1 passage stands" if len(found.above) == 1 else f"{len(found.above)} passages stand"
    where = "ahead of it " if found.stage == "reranked" or journey.in_prompt else ""
    yield f"{many} {where}in the {found.stage} list; voted there by {_votes(found)}"
    titles = ("rank", "passage", *_list_titles(found), "" if found.sentence is None else "shares")
    rows = [_above(one) for one in found.above[:_SHOWN_ABOVE]]
    yield from map(_detail, _table([titles, *rows], ">" + "<" + ">" * (len(titles) - 2)))
    if len(found.above) > _SHOWN_ABOVE:
        yield _detail(f"and {len(found.above) - _SHOWN_ABOVE} more")
    for group in found.duplicates:
        yield f"near-duplicates (cosine {group.cosine:.2f}, from {THRESHOLD:g}): {', '.join(group.chunk_ids)}"
    if not found.duplicates:
        yield f"no near-duplicates among them (TF-IDF cosine from {THRESHOLD:g})"
    if found.sentence is not None:
        yield f'content words of "{_short(found.sentence)}": {", ".join(found.content_words) or "none"}'
        for one in found.answering:
            yield f"may answer too: {one.chunk_id} shares {one.share:.0%} of them: {', '.join(one.shared)}"
        if not found.answering:
            yield f"none of them shares more than {ANSWERS_FROM:.0%} of these, so none is likely to answer too"


def _list_titles(found: Displacement) -> tuple[str, ...]:
    """The names of the lists that voted, one name for many."""
    names = tuple(found.above[0].ranks) if found.above else ()
    return names if len(names) <= EACH else ("lists",)


def _votes(found: Displacement) -> str:
    """How many passages each combination of lists voted for, or of many lists each of them; the commonest first."""
    voters = [[name for name, rank in one.ranks.items() if rank is not None] for one in found.above]
    is_many = any(len(one.ranks) > EACH for one in found.above)
    sides = Counter(name for names in voters for name in (names if is_many else [" and ".join(names)]))
    return ", ".join(f"{side} ({number})" for side, number in sides.most_common())


def _above(one: Above) -> tuple[str, ...]:
    ranks = ["–" if rank is None else str(rank) for rank in one.ranks.values()]
    shown = ranks if len(ranks) <= EACH else [found_in(one.ranks.values())]
    return str(one.rank), one.chunk_id, *shown, "" if one.share is None else f"{one.share:.0%}"


# --- the parse view ------------------------------------------------------------------------------------------------


def _parse(view: ParseView | PassageView) -> Iterator[str]:
    tokens = [one for one in view.tokens if one.role != "blank"]
    if tokens:
        yield from _table([("token", "type", "dictionary", "lexemes", "read as"), *map(_token, tokens)], "<<<<<")
        yield ""
    if isinstance(view, ParseView):
        yield from _reading(view)
    for note in view.notes:
        yield f"note: {note}"


def _token(one: Token) -> tuple[str, ...]:
    return _short(one.token), one.type, one.dictionary or "", " ".join(one.lexemes), one.role


def _reading(view: ParseView) -> Iterator[str]:
    found = (
        ("terms", view.terms),
        ("phrases", view.phrases),
        ("excluded", view.excluded),
        ("dropped", view.stop_words),
    )
    for name, terms in found:
        if terms:
            yield _row(name, ", ".join(terms))
    if not view.terms and not view.phrases:
        yield _row("terms", "none, so full text finds nothing")
    for dash in view.dashes:
        yield _row("dash", f'"{dash.written}" was read as an exclusion of {", ".join(dash.excluded)}')
    if view.meant is not None:
        yield _row("meant?", f"{_short(view.meant)}  (finds {', '.join(view.meant_terms) or 'nothing'})")


# --- lines ---------------------------------------------------------------------------------------------------------


def _row(name: str, text: str) -> str:
    return f"{name:<{_COLUMN}}{text}"


def _stage(name: str, rank: int | None, text: str) -> str:
    return f"{name:<{_COLUMN - 1}} {'–' if rank is None else rank:>5}  {text}"


def _detail(text: str) -> str:
    return f"{'':<{_COLUMN + 7}}{text}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


def _table(rows: Iterable[Sequence[str]], sides: str) -> list[str]:
    """The rows in columns as wide as their widest cell; `sides` has < or > for each column."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        for row in cells
    ]
