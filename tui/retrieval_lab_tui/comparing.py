"""Two pipelines on one question: which others there are, what differs, and where each has the other's passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from textual.content import Content

from retrieval_lab.config import PipelineConfig, dotted
from retrieval_lab.configurations import Configuration
from retrieval_lab.settings import EmbedderSettings, ModelReranker, RerankerSettings, TrainedReranker
from retrieval_lab.types import Chunk, Place
from retrieval_lab_tui.answer import Answer, movement
from retrieval_lab_tui.display import one_line
from retrieval_lab_tui.embedders import embedder_name, lacking
from retrieval_lab_tui.labs import Labs
from retrieval_lab_tui.list_names import fitting
from retrieval_lab_tui.live_settings import rerankers, with_reranker
from retrieval_lab_tui.moved import rank_style, rank_text
from retrieval_lab_tui.status import STAGE_LABELS
from retrieval_lab_tui.widgets.ranked_list import Row

GONE, NEW = "gone", "new"
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Side:
    """A pipeline to compare with; `name` says what it is, `note` what to know before it is chosen."""

    name: str
    config: PipelineConfig
    note: str = ""


def sides(labs: Labs, offered: Sequence[EmbedderSettings], named: Sequence[Configuration] = ()) -> tuple[Side, ...]:
    """What the settings of the moment can be compared with.

    Other rerankers and embedders, the file's settings, the configurations that have a name, and those of before.
    """
    if labs.now is None or labs.file is None:
        return ()
    now, file = labs.now.config, labs.file.config
    found = [
        *(
            Side(f"reranker {one.kind}", with_reranker(now, one), _model_note(one))
            for one in rerankers(file)
            if one.kind != now.reranker.kind
        ),
        *(
            Side(f"embedder {one_line(embedder_name(one))}", replace(now, embedder=one), _index_note(labs, now, one))
            for one in offered
            if one != now.embedder
        ),
        *((Side("the file's settings", file, differences(file, now)[0]),) if labs.live else ()),
        *(
            Side(f"configuration {one_line(one.name)}", one.config, one_line(one.description))
            for one in named
            if one.config is not None and one.config != now
        ),
        *(Side("settings of before", one, differences(one, now)[0]) for one in labs.earlier if one not in (now, file)),
    ]
    return tuple({side.config: side for side in reversed(found)}.values())[::-1]


def _model_note(reranker: RerankerSettings) -> str:
    if isinstance(reranker, TrainedReranker):
        return one_line(" · ".join(filter(None, (reranker.path, lacking(reranker)))))
    if not isinstance(reranker, ModelReranker):
        return ""
    return one_line(" · ".join(filter(None, (reranker.model_path or reranker.model, lacking(reranker)))))


def _index_note(labs: Labs, now: PipelineConfig, embedder: EmbedderSettings) -> str:
    if missing := lacking(embedder):
        return missing
    is_open = labs.serving(replace(now, embedder=embedder)) is not None
    return "index open" if is_open else "its index is opened, or made, first"


def differences(left: PipelineConfig, right: PipelineConfig) -> tuple[str, str]:
    """What is set otherwise on the other side, in few words, for each of the two."""
    ours, theirs = _named_settings(left), _named_settings(right)
    keys = [key for key in dict.fromkeys((*ours, *theirs)) if ours.get(key) != theirs.get(key)]
    # Another kind brings settings of its own, which say nothing beside its name.
    keys = [
        key for key in keys if key.endswith(".kind") or f"{key.rpartition('.')[0]}.kind" not in keys or "." not in key
    ]
    return _worded(keys, ours), _worded(keys, theirs)


def _named_settings(config: PipelineConfig) -> dict[str, Any]:
    settings = {key: value for key, value in dotted(config.to_dict()).items() if not key.startswith("embedder.")}
    return {"embedder": embedder_name(config.embedder), **settings}


def _worded(keys: Sequence[str], settings: Mapping[str, Any]) -> str:
    named = [_in_words(key.removesuffix(".kind"), settings.get(key)) for key in keys[:_NAMED]]
    more = (f"{len(keys) - _NAMED} more",) if len(keys) > _NAMED else ()
    return one_line(" · ".join((*named, *more))) or "the same settings"


def _in_words(key: str, value: Any) -> str:
    """A setting with its value; of a list that is called by its kind the name alone."""
    name = key.removeprefix("retrievers.")
    if name != key and "." not in name and value in (None, name):
        return f"no {name}" if value is None else name
    return f"{name} {_value(value)}"


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Compared:
    """One question answered by both pipelines.

    `left` and `right` are the final lists; each row's detail tells where the right has the passage of the left, and
    where the right's own come from: `▲ 3` is three places higher on the right, `gone` is on the left alone, `new` on
    the right alone. `both` counts the passages that both have.
    """

    left: tuple[Row, ...]
    right: tuple[Row, ...]
    both: int


def compared(left: Answer, right: Answer) -> Compared:
    """The final lists of two answers to one question, side by side."""
    ours, theirs = _ranks(left), _ranks(right)

    def move(chunk: Chunk) -> str:
        if chunk not in theirs:
            return GONE
        return movement(ours[chunk], theirs[chunk]) if chunk in ours else NEW

    return Compared(
        tuple(replace(row, detail=move(left.chunks[row.chunk_id])) for row in left.lists["final"]),
        tuple(replace(row, detail=move(right.chunks[row.chunk_id])) for row in right.lists["final"]),
        len(ours.keys() & theirs.keys()),
    )


def _ranks(answer: Answer) -> dict[Chunk, int]:
    """By the whole chunk: where the documents are cut in another way, one id stands for two passages."""
    return {answer.chunks[row.chunk_id]: row.rank for row in answer.lists["final"]}


def counterpart(chunk_id: str | None, here: Answer, there: Answer) -> str | None:
    """The id of a passage on the other side; None where that has no such passage in its lists."""
    chunk = here.chunks.get(chunk_id or "")
    return chunk_id if chunk is not None and there.chunks.get(chunk.chunk_id) == chunk else None


def wanted_line(left: Answer, right: Answer, room: int) -> Content:
    """The wanted passage's rank on both sides, at each stage that both have; one rank where it is the same.

    The names of many lists are cut to fit into the room.
    """
    if left.question.golden is None:
        return Content.styled(" no passage is marked: this question is your own", "$foreground-muted")
    if not left.fate or not right.fate:
        reason = left.trace.unlabelled or right.trace.unlabelled or "no passage holds the anchor"
        return Content.assemble((" NO LABEL ", "bold reverse $warning"), f" {one_line(reason)}")
    ranks = {
        STAGE_LABELS.get(stage, stage): _both_ranks(ours, right.fate[stage])
        for stage, ours in left.fate.items()
        if stage in right.fate
    }
    taken = sum(one.cell_length + len(" · ") + 1 for one in ranks.values())
    names = fitting(list(ranks), room - taken) or list(ranks)
    stages = [
        Content.assemble((f"{name} ", "$foreground-muted"), one)
        for name, one in zip(names, ranks.values(), strict=True)
    ]
    verdicts = [" FOUND " if answer.fate["final"].listed else " MISS " for answer in (left, right)]
    styles = [f"bold reverse {'$success' if 'FOUND' in one else '$error'}" for one in verdicts]
    heads = ((verdicts[0], styles[0]), "→", (verdicts[1], styles[1]), (" ● ", "bold $success"))
    return Content.assemble(" ", *heads, Content(" · ").join(stages))


def _both_ranks(ours: Place, theirs: Place) -> Content:
    old, new = rank_text(ours), rank_text(theirs)
    if old == new:
        return Content.styled(old, "bold")
    return Content.assemble(f"{old} → ", (new, f"bold {rank_style(ours, theirs)}"))
