"""The lines above the lists: what is open, the wanted passage's fate, what was read out of the question."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from retrieval_lab.config import PipelineConfig
from retrieval_lab.lab import Lab
from retrieval_lab.many_lists import found_in
from retrieval_lab.offline import IndexLab
from retrieval_lab.settings import RrfFusion
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.trace import Trace
from retrieval_lab.types import Filter, Place
from retrieval_lab_tui.answer import Answer, Question
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.embedders import embedder_name
from retrieval_lab_tui.labs import Labs
from retrieval_lab_tui.list_names import fitting

STAGE_LABELS = {"vector": "vector", "text": "text", "fused": "fused", "reranked": "rerank", "final": "final"}
_ID_WIDTH = 24
_LEAST_ID = 8
_NAME_WIDTH = 32
_ROOM_FOR_REASONS = 120
_LONG_SECONDS = 0.5
_NAMED_EXCLUSIONS = 5


def header_line(
    labs: Labs | None,
    place: Content,
    alerts: Sequence[str],
    width: int,
) -> Content:
    """What is open; at the right what needs attention, and the golden query's place or what is going on."""
    now = None if labs is None else labs.now
    name = None if labs is None else labs.name
    short = shorten_middle(one_line(name or ""), _NAME_WIDTH)
    chip = Content("") if name is None else Content.assemble((f" {short} ", "reverse"), " ")
    left = Content.assemble((" retrieval lab ", "bold $accent"), " ", chip, _corpus(None if now is None else now.lab))
    right = place
    if alerts:
        right = Content.assemble(Content.styled(f"{' · '.join(alerts)} ", "bold $warning"), " ", right)
    settings = Content("")
    if labs is not None and now is not None:
        settings = Content.styled(_settings(now.lab, now.config), "bold $warning" if labs.live else "$foreground-muted")
    if left.cell_length + settings.cell_length + right.cell_length < width:
        right = settings + right
    gap = width - left.cell_length - right.cell_length
    if gap < 1:
        left = left.truncate(max(0, width - right.cell_length - 1), ellipsis=True)
        gap = 1
    return Content.assemble(left, " " * gap, right)


def asking_place(seconds: float) -> Content:
    """That a question is on its way, and how it can be stopped when it takes long."""
    if seconds < _LONG_SECONDS:
        return Content.styled("asking… ", "bold $warning")
    return Content.assemble((f"asking… {seconds:.1f} s", "bold $warning"), (" · esc stops ", "$foreground-muted"))


def question_place(lab: Lab | None, question: Question | None, misses: Sequence[int] | None) -> Content:
    """Where the question stands in the golden set, and among its misses when they are known."""
    if lab is None or question is None:
        return Content("")
    if question.golden is None or question.index is None:
        return Content.styled("your own question ", "$foreground-muted")
    name = f"{one_line(question.golden.query_id)} {one_line(question.golden.kind)}"
    name += ", edited" if question.edited else ""
    place = f"{name} · {question.index + 1} of {len(lab.golden)}"
    if misses and question.index in misses:
        place += f", miss {misses.index(question.index) + 1} of {len(misses)}"
    elif misses is not None:
        place += f", {len(misses)} missed"
    return Content.styled(f"{place} ", "bold")


def _corpus(lab: Lab | None) -> str:
    if lab is None:
        return ""
    if lab.replayed:
        return f"a bundle of {one_line(str(lab.corpus))}"
    if isinstance(lab, IndexLab):
        name = f"index {one_line(lab.folder.resolve().name)} · {lab.server}"
    else:
        name = one_line("/".join(lab.corpus.resolve().parts[-2:]))
    documents = lab.index.unchanged + len(lab.index.indexed)
    return f"{name} · {documents} docs · {lab.index.chunks} chunks"


def _settings(lab: Lab, config: PipelineConfig) -> str:
    diversity = () if config.mmr_lambda is None else (f"λ {config.mmr_lambda:g}",)
    fusion = config.fusion.kind + (f" {config.fusion.k:g}" if isinstance(config.fusion, RrfFusion) else "")
    settings = (
        *_filter(config.filter),
        *(() if lab.replayed else (one_line(embedder_name(config.embedder)),)),
        f"n {config.fusion.n}",
        fusion,
        config.reranker.kind,
        *diversity,
        f"k {config.top_k}",
    )
    server = "" if isinstance(lab, IndexLab) else f"{lab.server}   "  # an index says so beside its name
    return f"{' │ '.join(settings)}   {server}"


def _filter(filter: Filter) -> tuple[str, ...]:
    counts = {"doc": filter.doc_ids, "source": filter.sources, "path": filter.paths}
    given = ", ".join(f"{len(some)} {what}{'s' * (len(some) > 1)}" for what, some in counts.items() if some)
    return (f"filter {given}",) if given else ()


def verdict_line(lab: Lab | None, answer: Answer | None, trouble: str | None, width: int) -> Content:
    """Found or missed, the wanted passage, and its rank at every stage; or why there is nothing to say of that."""
    if trouble is not None:
        keys = (("r", "bold"), " asks again · below, the answer before")
        return Content.assemble((" NOT ANSWERED ", "bold reverse $error"), f" {one_line(trouble)} · ", *keys)
    if answer is None:
        return _without_answer(lab)
    if answer.question.golden is None:
        return Content.styled(" no passage is marked: this question is your own", "$foreground-muted")
    if answer.question.golden.level == "none":
        return Content.assemble((" NO ANSWER ", "bold reverse"), f" {one_line(answer.trace.unlabelled or '')}")
    if answer.trace.unlabelled is not None:
        return Content.assemble((" NO LABEL ", "bold reverse $warning"), f" {one_line(answer.trace.unlabelled)}")
    top_k = answer.trace.config.top_k
    chunks = lab.index.chunks or None if lab is not None and width >= _ROOM_FOR_REASONS else None
    missed = not answer.fate["final"].listed
    verdict = Content.styled(*((" MISS ", "bold reverse $error") if missed else (" FOUND ", "bold reverse $success")))
    journey = _journey(answer, top_k, chunks, width - verdict.cell_length - 6 - _LEAST_ID)
    room = width - journey.cell_length - verdict.cell_length - 6
    return Content.assemble(" ", verdict, (" ● ", "bold $success"), _wanted(answer, room), "  ", journey)


def _without_answer(lab: Lab | None) -> Content:
    if lab is None or lab.golden:
        return Content("")
    if lab.golden_faults:
        return Content.assemble((" GOLDEN SET FAULTY ", "bold reverse $warning"), " ", ("!", "bold"), " says where")
    return Content.assemble(" no golden queries: press ", ("/", "bold"), " to write a question")


def against_chip(labs: Labs | None, question: Question | None) -> Content:
    """What is compared with the question of the golden set and the settings of the file."""
    edited = question is not None and question.edited
    settings = "other settings" if labs is None else one_line(labs.name or "other settings")
    live = labs is not None and labs.live
    what = " and ".join(name for name, holds in (("edited", edited), (settings, live)) if holds)
    return Content.assemble(" ", (f" {what} ", "reverse"), "  ")


def notes_line(trace: Trace) -> Content:
    """What full-text search excluded, where a person cannot overlook it, what the stages noted, what was searched."""
    terms = [one_line(term.strip("'")) for term in trace.parsed.excluded]
    more = f" and {len(terms) - _NAMED_EXCLUSIONS} more" if len(terms) > _NAMED_EXCLUSIONS else ""
    chip = Content.styled(f" excluded: {', '.join(terms[:_NAMED_EXCLUSIONS])}{more} ", "bold reverse $warning")
    said_by_the_chip = tuple(f"{name} excluded: " for name in trace.lists)
    notes = [Content(one_line(note)) for note in trace.notes if not note.startswith(said_by_the_chip)]
    notes += [
        Content.assemble((f"{one_line(name)} expanded ", "$foreground-muted"), one_line(str(expansion)))
        for name, expansion in trace.expansions.items()
    ]
    hint = Content.assemble(("O", "bold"), " searches it as text")
    return Content.assemble(" ", Content("  ").join([chip, hint, *notes] if terms else notes))


def _wanted(answer: Answer, room: int) -> Content:
    """The wanted chunk's id, with the anchor when there is room for it."""
    ids = answer.trace.relevant
    name = one_line(ids[0]) + (f" +{len(ids) - 1}" if len(ids) > 1 else "")
    anchor = answer.question.golden.anchor if answer.question.golden else ""
    if room < _ID_WIDTH + 20 or not anchor:
        return Content.styled(shorten_middle(name, max(_LEAST_ID, min(room, 40))), "bold")
    shown = f' "{one_line(anchor)}"'
    return Content.assemble((shorten_middle(name, 40), "bold"), shown).truncate(room, ellipsis=True)


def _lost_stages(answer: Answer) -> frozenset[str]:
    """The stages of the fate line that stand for the stage which lost the passage."""
    lost_at = None if answer.journey is None else answer.journey.lost_at
    if lost_at in ("pool", "index"):
        return frozenset(answer.trace.lists)
    shown = {"fusion": "fused", "reranker": "reranked", "mmr": "final"}
    return frozenset([shown[lost_at]] if lost_at in shown else [])


def _journey(answer: Answer, top_k: int, chunks: int | None, room: int) -> Content:
    """The rank at every stage: in words where those fit, else with short names, else the lists are counted only."""
    lost, fate = _lost_stages(answer), answer.fate
    arrow = Content.styled(" › ", "$foreground-muted")
    labels = [STAGE_LABELS.get(stage, stage) for stage in fate]
    for size in dict.fromkeys((chunks, None)):
        ranks = [_rank(stage, place, top_k, size, is_lost=stage in lost) for stage, place in fate.items()]
        taken = sum(rank.cell_length + 1 for rank in ranks) + arrow.cell_length * (len(ranks) - 1)
        names = fitting(labels, room - taken)
        if names is not None and (size is None or names == fitting(labels, sum(map(len, labels)))):
            return arrow.join(map(_labelled, names, ranks))
    lists = [place.rank if place.listed else None for stage, place in fate.items() if stage in answer.trace.lists]
    style = "bold reverse $error" if lost & answer.trace.lists.keys() else "bold"
    later = list(map(_labelled, labels, ranks))[len(lists) :]
    return arrow.join([_labelled("lists", Content.styled(found_in(lists), style)), *later])


def _labelled(label: str, rank: Content) -> Content:
    return Content.assemble((f"{label} ", "$foreground-muted"), rank)


def _rank(stage: str, place: Place, top_k: int, chunks: int | None, *, is_lost: bool) -> Content:
    """The rank of the wanted passage at a stage, in reverse where it was lost.

    Beyond the end of a list it is red and in brackets, or with `chunks`, the size of the corpus, "246 of 687"; where
    there is none, the reason stands in its place.
    """
    lost = "reverse " if is_lost else ""
    if place.listed:
        return Content.styled(str(place.rank), f"bold {lost}{'$error' if lost else ''}")
    if stage == "final":
        unlisted = f">{top_k}"
    elif place.rank is not None:
        unlisted = f"({place.rank})" if chunks is None else f"{place.rank} of {chunks}"
    else:
        unlisted = "–" if chunks is None or stage in ("fused", "reranked") else one_line(place.reason or "–")
    return Content.styled(unlisted, f"bold {lost}$error")
