"""What is told of passages that lists in memory hold or lose: journeys, funnels, rescues, and every command once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from retrieval_lab import Lab, PipelineConfig, cli
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.funnel import funnel
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.report import journey_report
from retrieval_lab.diagnosis.rescue import Rescues
from retrieval_lab.diagnosis.rescues import rescues
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.dense import FlatSearch, IvfSearch
from retrieval_lab.retrievers.tfidf import LsaSearch, TfIdfSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab.trace import Trace

Capture = pytest.CaptureFixture[str]

KINDS: list[RetrieverSettings] = [
    Bm25Search(),
    StemmedBm25Search(),
    TfIdfSearch(),
    LsaSearch(dims=5),
    FlatSearch(),
    IvfSearch(nlist=4, nprobe=4),
]
GOLDEN = """\
- {query_id: q1, query: apple, kind: word, doc_id: s00, anchor: apple}
- {query_id: q2, query: apple, kind: word, doc_id: s72, anchor: apple}
- {query_id: q3, query: apple, kind: other, doc_id: pie, anchor: rhubarb}
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Path:
    """80 stories about apples among more and more other words, and one without any; a chunk each."""
    assert database.embedded
    folder = tmp_path_factory.mktemp("memory") / "apples"
    (folder / "stories").mkdir(parents=True)
    for number in range(80):
        others = " ".join(f"other{number}x{one}" for one in range(number))
        (folder / "stories" / f"s{number:02}.txt").write_text(f"apple {others}\n", encoding="utf-8")
    (folder / "stories" / "pie.txt").write_text("rhubarb custard\n", encoding="utf-8")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def lab(corpus: Path) -> Iterator[Lab]:
    with Lab.open(corpus, config()) as opened:
        yield opened


def config(*retrievers: RetrieverSettings, **settings: Any) -> PipelineConfig:
    others: dict[str, Any] = {"reranker": NoReranker(), "mmr_lambda": None, **settings}
    return PipelineConfig(retrievers=retrievers or (Bm25Search(),), **others)


def named(settings: RetrieverSettings) -> str:
    return settings.kind


# --- journeys ------------------------------------------------------------------------------------------------------


def test_a_passage_beyond_a_list_or_without_the_word_is_explained(lab: Lab) -> None:
    """Each story is one word longer than the one before, so BM25 and TF-IDF have them in their order."""
    for settings, reason in (
        (Bm25Search(), "no word in common"),
        (StemmedBm25Search(), "no word in common"),
        (TfIdfSearch(), "no word in common"),
    ):
        far = lab.explain("apple", "s72#000", config(settings))
        assert (far.lost_at, far.reason) == ("pool", f"on no list: {settings.name} rank 73, beyond its list of 50")
        assert (far.lists[settings.name].rank, far.lists[settings.name].listed) == (73, None)
        none = lab.explain("apple", "pie#000", config(settings))
        assert (none.lost_at, none.reason) == ("pool", f"on no list: {settings.name} {reason}")
        assert "beyond the list of 50" in journey_report(far)
        assert reason in journey_report(none)
        for journey in (far, none):
            assert Journey.from_dict(json.loads(json.dumps(journey.to_dict()))) == journey


@pytest.mark.parametrize("settings", KINDS, ids=named)
def test_every_place_is_that_of_a_list_of_the_whole_corpus(lab: Lab, settings: RetrieverSettings) -> None:
    whole = lab.trace("apple other7x3", config(replace(settings, n=81)))
    short = lab.trace("apple other7x3", config(settings))
    for hit in whole.lists[settings.name][::9]:
        place = short.ranks_of(hit.chunk_id)[settings.name]
        assert (place.rank, place.score, place.listed) == (hit.rank, hit.score, hit.rank <= 50)
        found = lab.explain("apple other7x3", hit.chunk_id, config(settings)).lists[settings.name]
        assert (found.rank, found.score) == (hit.rank, hit.score)
    assert short.searches[settings.name].matching == len(whole.lists[settings.name])
    assert short.lists[settings.name] == whole.lists[settings.name][:50]
    assert Trace.from_dict(json.loads(json.dumps(short.to_dict()))) == short


def test_what_the_lists_of_an_inverted_file_leave_out_is_lost_by_the_index(lab: Lab) -> None:
    settings = IvfSearch(nlist=8, nprobe=1)
    exact = lab.trace("apple", config(FlatSearch())).lists["flat"]
    listed = {hit.chunk_id for hit in lab.trace("apple", config(settings)).lists["ivf"]}
    left_out = [hit for hit in exact if hit.chunk_id not in listed]
    assert left_out
    journey = lab.explain("apple", left_out[0].chunk_id, config(settings))
    rank = left_out[0].rank
    assert journey.lost_at == "index"
    assert journey.reason == f"ivf: the exact scan has it at rank {rank}, the inverted file's list of 50 lacks it"
    assert "not on the list of 50" in journey_report(journey)
    notes = lab.trace("apple", config(settings)).notes
    assert any(note.startswith("ivf: the lists that were read hold") for note in notes)


# --- funnels and rescues -------------------------------------------------------------------------------------------


def test_the_funnel_of_a_list_in_memory(lab: Lab) -> None:
    fates = {fate.query_id: fate for fate in funnel(lab, config(Bm25Search())).fates}
    assert (fates["q1"].final_rank, fates["q1"].lost_at) == (1, None)
    assert (fates["q2"].lost_at, fates["q2"].reason) == ("pool", "on no list: bm25 rank 73, beyond its list of 50")
    assert (fates["q3"].lost_at, fates["q3"].reason) == ("pool", "on no list: bm25 no word in common")


@pytest.mark.parametrize("settings", KINDS, ids=named)
def test_a_deeper_list_rescues_what_is_just_beyond_it(lab: Lab, settings: RetrieverSettings) -> None:
    """Fused from one list, the final list is its first rows: what it takes is the rank of the passage."""
    whole = lab.trace("apple", config(replace(settings, n=81))).lists[settings.name]
    wanted = whole[6]
    found = rescues(lab, "apple", wanted.chunk_id, config(replace(settings, n=3)))
    assert Rescues.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    key = f"retrievers.{settings.name}.n"
    changes = [change for one in found.rescues for change in one.changed if change.key == key]
    assert [(change.baseline, change.system) for change in changes] == [(3, wanted.rank)]
    assert next(one for one in found.rescues if one.setting == key).after == wanted.rank


def test_a_weight_rescues_what_one_of_two_lists_has_higher(lab: Lab) -> None:
    lists = (Bm25Search(n=3), FlatSearch(n=3))
    query = "apple custardy"  # no story has the second word, and one has most of its letters
    own = {name: [hit.chunk_id for hit in hits] for name, hits in lab.trace(query, config(*lists)).lists.items()}
    assert "pie#000" in own["flat"]
    assert "pie#000" not in own["bm25"]
    pair = config(replace(lists[0], weight=1.0), replace(lists[1], weight=0.01), top_k=3)
    found = rescues(lab, query, "pie#000", pair)
    assert found.is_miss
    raised = [one for one in found.rescues if one.setting == "retrievers.flat.weight"]
    assert len(raised) == 1
    assert raised[0].after <= 3


def test_other_ways_of_indexing_are_tried_with_lists_in_memory(lab: Lab) -> None:
    found = rescues(lab, lab.golden_query("q3"), config=config(*KINDS[:3], top_k=1), reindex=True)
    settings = {one.setting for one in found.tried} | {one.setting for one in found.rescues}
    assert {"contextual_headers", "chunker.max_chars"} <= settings


# --- the command line ----------------------------------------------------------------------------------------------


COMMANDS = [
    ["search", "apple other3x1", "--corpus"],
    ["trace", "apple", "--chunk", "s72#000", "--corpus"],
    ["trace", "--golden", "q2", "--corpus"],
    ["eval"],
    ["funnel"],
    ["rescue", "--golden", "q2", "--corpus"],
]


@pytest.mark.parametrize("settings", KINDS, ids=named)
def test_every_command_works_with_every_kind(
    settings: RetrieverSettings, corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "lab.yaml"
    given = {"kind": settings.kind, "n": 5, **({"dims": 5} if settings.kind == "lsa" else {})}
    file.write_text(yaml.safe_dump({"retrievers": {"mine": given}, "reranker": "none", "top_k": 3}), encoding="utf-8")
    for command in COMMANDS:
        for as_json in ([], ["--json"]):
            code = cli.main([*command, str(corpus), "--config", str(file), *as_json])
            out, err = capsys.readouterr()
            assert (code, err) == (0, ""), command
            if as_json:
                found = json.loads(out)
                assert found
                if command[0] == "trace":
                    assert list(found["lists"]) == ["mine"]
                    assert len(found["lists"]["mine"]) == 5
                    assert found["searches"]["mine"]["plan"][0].startswith("In memory: ")
            elif command[0] == "trace":
                assert "In memory: " in out
