"""A portable index in the place of a lab: the same lists as over PostgreSQL, and no server for any of them."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrieval_lab import lab as lab_module
from retrieval_lab.answering import grounds
from retrieval_lab.config import PipelineConfig
from retrieval_lab.configurations import configurations
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.bundle import make_bundle, read_bundle, write_bundle
from retrieval_lab.diagnosis.funnel import funnel
from retrieval_lab.diagnosis.rescues import rescues
from retrieval_lab.errors import Cancelled, InputError, LabError
from retrieval_lab.evals.kept import resolve_run
from retrieval_lab.evals.runs import run
from retrieval_lab.history import History
from retrieval_lab.lab import Lab
from retrieval_lab.offline import IndexLab, IndexSource
from retrieval_lab.portable import export_index
from retrieval_lab.ragindex import BM25, Index, IndexedChunk
from retrieval_lab.retrievers.bm25 import Bm25Search, StemmedBm25Search
from retrieval_lab.retrievers.dense import FlatSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.server import Server
from retrieval_lab.settings import HashEmbedding, MarkdownChunker, WordChunker
from retrieval_lab.types import Filter
from tests.core.ragindex import plain

BREAD = "# Bread\n\n## Baking\n\nBake the loaf for forty minutes.\n\n## Proving\n\nLet the dough rise twice.\n"
SOUP = "# Soup\n\nBoil the leeks with two potatoes.\n"
GOLDEN = """\
- {query_id: q1, query: how long does the loaf bake, kind: factual, doc_id: bread, anchor: forty minutes}
- {query_id: q2, query: how many carrots, kind: factual, doc_id: soup, anchor: three carrots}
- {query_id: q3, query: a soup of leeks, kind: document, relevant: [soup]}
- {query_id: q4, query: who painted the sign, kind: none, relevant: []}
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    docs = tmp_path / "corpus" / "docs"
    docs.mkdir(parents=True)
    (docs / "bread.md").write_text(BREAD, encoding="utf-8")
    (docs / "soup.md").write_text(SOUP, encoding="utf-8")
    (docs.parent / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return docs.parent


@pytest.fixture
def folder(corpus: Path, tmp_path: Path) -> Path:
    export_index(corpus, PipelineConfig().indexing).index.write(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants PostgreSQL, or starts it, gets an error."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("no server is needed")

    monkeypatch.setattr(Database, "open", refuse)
    monkeypatch.setattr(Server, "start", refuse)
    monkeypatch.setattr(lab_module.psycopg, "connect", refuse)


@pytest.fixture
def opened(folder: Path, corpus: Path, no_server: None) -> Iterator[IndexLab]:  # noqa: ARG001
    with IndexSource(folder, corpus).open() as lab:
        assert isinstance(lab, IndexLab)
        yield lab


# --- as over PostgreSQL --------------------------------------------------------------------------------------------


def test_every_golden_query_has_the_lists_the_fate_and_the_measures_that_it_has_over_the_server(
    corpus_dir: Path, tmp_path: Path
) -> None:
    export_index(corpus_dir, PipelineConfig().indexing).index.write(tmp_path / "index")
    with IndexSource(tmp_path / "index", corpus_dir).open() as ours, Lab.open(corpus_dir, ours.config) as server:
        for golden in server.golden:
            here, there = ours.trace(golden), server.trace(golden)
            assert here.lists == there.lists, golden.query_id
            assert (here.fused, here.reranked, here.final) == (there.fused, there.reranked, there.final)
            assert (here.chunks, here.relevant) == (there.chunks, there.relevant)
            assert here.fate() == there.fate()
            assert {name: one.matching for name, one in here.searches.items()} == {
                name: one.matching for name, one in there.searches.items()
            }
        assert ours.evaluate() == server.evaluate()
        assert run(ours).corpus == run(server).corpus  # so that a run of one can be compared with one of the other
        assert funnel(ours).fates == funnel(server).fates
        stranger = next(one.chunk_id for one in ours.passages.corpus.index.chunks if one.chunk_id not in here.chunks)
        assert ours.explain(here, stranger).lists == server.explain(there, stranger).lists
        assert ours.neighbours(stranger) == server.neighbours(stranger)


def test_rows_are_put_in_the_order_of_their_ids_so_that_ties_are_decided_alike() -> None:
    texts = ["tea", "tea", "tea cup", "cup cup", "the tea"]
    ids = ["d#001", "a#000", "c#000", "b#000", "d#000"]
    made = Index.build(
        [plain_chunk(one, text) for one, text in zip(ids, texts, strict=True)],
        np.eye(5, 4, dtype=np.float32),
        embedding_model="hash-4",
    )
    found = made.by_id()
    order = [1, 3, 2, 4, 0]
    assert [one.chunk_id for one in found.chunks] == [ids[row] for row in order]
    np.testing.assert_array_equal(found.vecs, np.eye(5, 4, dtype=np.float32)[order])
    assert found.bm25.to_bytes() == BM25.build([texts[row] for row in order]).to_bytes()
    assert found.by_id() is found


def plain_chunk(chunk_id: str, text: str) -> IndexedChunk:
    return IndexedChunk.of(chunk_id, chunk_id.partition("#")[0], text)


# --- what it answers -----------------------------------------------------------------------------------------------


def test_an_index_is_searched_by_words_and_by_vectors_as_usual(opened: IndexLab) -> None:
    assert [(one.name, one.kind, one.n) for one in opened.config.retrievers] == [
        ("bm25", "bm25", 50),
        ("flat", "flat", 50),
    ]
    usual = PipelineConfig()
    assert (opened.config.reranker, opened.config.mmr_lambda, opened.config.fusion) == (
        usual.reranker,
        usual.mmr_lambda,
        usual.fusion,
    )
    trace = opened.trace("how long does the loaf bake")
    assert trace.final[0].chunk_id == "bread#001"
    assert trace.notes == ()
    assert (opened.index.chunks, opened.index.unchanged) == (len(opened.passages.corpus.index.chunks), 2)


def test_labels_by_anchor_and_by_document_are_found_and_one_that_finds_nothing_is_told(opened: IndexLab) -> None:
    assert [one.query_id for one in opened.golden] == ["q1", "q2", "q3", "q4"]
    assert opened.trace(opened.golden[0]).relevant == ("bread#001",)
    assert opened.trace(opened.golden[1]).unlabelled is not None
    of_document = opened.trace(opened.golden[2])
    assert {one.partition("#")[0] for one in of_document.relevant} == {"soup"}
    results = {one.query.query_id: one for one in opened.evaluate_queries()}
    assert results["q1"].mrr == 1.0
    assert results["q3"].recall == 1.0
    assert results["q4"].support is not None
    fates = {one.query_id: one.lost_at for one in funnel(opened).fates}
    assert fates == {"q1": None, "q2": "chunking", "q3": None}


def test_passages_have_their_neighbours_their_places_and_their_file(opened: IndexLab, corpus: Path) -> None:
    before, after = opened.neighbours("bread#001")
    assert (before is not None and before.chunk_id, after is not None and after.chunk_id) == ("bread#000", "bread#002")
    first, last = opened.neighbours("bread#000")[0], opened.neighbours("bread#002")[1]
    assert (first, last) == (None, None)
    assert opened.neighbours("gone#000") == (None, None)
    passage = opened.chunks(["gone#000", "bread#001"])["bread#001"]
    assert BREAD[passage.start_char : passage.end_char] == passage.text
    assert passage.heading_path == "Bread > Baking"
    path, line = opened.source(passage)
    assert (path, line) == (corpus / "docs" / "bread.md", BREAD[: passage.start_char].count("\n") + 1)


def test_the_words_that_are_marked_are_those_that_bm25_finds(opened: IndexLab) -> None:
    trace = opened.trace("The LOAVES rise")
    assert opened.matched_words(trace, ["the loaf and THE dough rises, rise"]) == {"the", "rise"}
    stemmed = replace(opened.config, retrievers=(StemmedBm25Search(),))
    trace = opened.trace("dough that is rising", stemmed)
    assert opened.matched_words(trace, ["the dough rises, rise that"]) == {"dough", "rises", "rise", "that"}


def test_how_a_question_and_a_passage_are_read_is_shown_word_by_word(opened: IndexLab) -> None:
    view = opened.parse_view('Bake the "Loaf" -twice')
    assert [(one.start, one.token, one.lexemes, one.role) for one in view.tokens] == [
        (0, "Bake", ("bake",), "term"),
        (5, "the", ("the",), "term"),
        (10, "Loaf", ("loaf",), "term"),
        (17, "twice", ("twice",), "term"),
    ]
    assert view.terms == ("bake", "the", "loaf", "twice")
    assert (view.excluded, view.phrases, view.dashes) == ((), (), ())
    passage = opened.parse_passage("soup#000")
    assert [one.token for one in passage.tokens][-2:] == ["two", "potatoes"]
    assert {one.role for one in passage.tokens} == {"indexed"}


def test_a_question_is_supported_by_the_stems_of_its_passages(opened: IndexLab) -> None:
    found = grounds(opened, "How long must the loaves be baked?")
    stems = [Counter(plain.terms(one.text)) for one in opened.passages.corpus.index.chunks]
    n, df = len(stems), sum("bake" in held for held in stems)
    assert found.terms.weights["bake"] == pytest.approx(math.log(1 + (n - df + 0.5) / (df + 0.5)))
    assert not {"the", "be", "how"} & found.terms.weights.keys()  # stop words
    best = next(one for one in found.sources if one.chunk.chunk_id == "bread#001")
    assert "bake" in best.support.terms
    assert found.lexemes["minutes"] == "minut"


def test_a_bundle_of_a_question_is_written_and_read_again(opened: IndexLab, tmp_path: Path) -> None:
    made = make_bundle(opened, opened.golden[0], rescues=False)
    write_bundle(tmp_path / "one.json", made)
    read = read_bundle(tmp_path / "one.json")
    assert read.trace == made.trace
    assert read.journey == made.journey
    assert read.parse.terms == ("how", "long", "does", "the", "loaf", "bake")


@pytest.mark.parametrize(
    ("filter", "documents"),
    [(Filter(doc_ids=("soup",)), {"soup"}), (Filter(paths=("docs/b*",)), {"bread"}), (Filter(sources=("file",)), None)],
)
def test_filters_hold_in_every_list(opened: IndexLab, filter: Filter, documents: set[str] | None) -> None:
    trace = opened.trace("bake the leeks", replace(opened.config, filter=filter))
    for hits in trace.lists.values():
        assert {one.chunk_id.partition("#")[0] for one in hits} == (documents or {"bread", "soup"})


@pytest.mark.parametrize("filter", [Filter(doc_ids=("tea",)), Filter(paths=("x/*",)), Filter(sources=("web",))])
def test_a_filter_that_lets_nothing_through_is_an_error(opened: IndexLab, filter: Filter) -> None:
    with pytest.raises(InputError, match="so nothing could be found"):
        opened.trace("bake", replace(opened.config, filter=filter))


# --- what it cannot ------------------------------------------------------------------------------------------------


def test_what_needs_the_server_is_refused_in_one_line(opened: IndexLab) -> None:
    config = replace(opened.config, retrievers=(Bm25Search(), VectorSearch()))
    for refused in (
        lambda: opened.trace("loaf", config),
        lambda: opened.evaluate(config=config),
        lambda: rescues(opened, opened.golden[1]),
        lambda: opened.connect(),
        lambda: opened.save_config(opened.config),
        lambda: opened.trace("loaf", replace(opened.config, embedder=HashEmbedding(64))),
    ):
        with pytest.raises(InputError) as error:
            refused()
        assert len(str(error.value).splitlines()) == 1
    with pytest.raises(InputError, match=r"vector \(vector\).*PostgreSQL.*bm25, bm25-stemmed, tfidf, lsa, flat, ivf"):
        opened.trace("loaf", config)
    assert opened.server_versions() == {}


def test_without_the_folder_of_the_corpus_there_are_neither_labels_nor_files(folder: Path, no_server: None) -> None:  # noqa: ARG001
    with IndexSource(folder).open() as lab:
        assert lab.golden == ()
        with pytest.raises(InputError, match="no golden queries: name the folder"):
            lab.evaluate()
        with pytest.raises(InputError, match="no files to open"):
            lab.source(lab.chunks(["soup#000"])["soup#000"])
        assert [(one.doc_id, folder) for one, folder in lab.searched()] == [("bread", "docs"), ("soup", "docs")]


def test_labels_may_lie_anywhere(folder: Path, tmp_path: Path, no_server: None) -> None:  # noqa: ARG001
    labels = tmp_path / "mine.yaml"
    labels.write_text(GOLDEN, encoding="utf-8")
    with IndexSource(folder, golden=labels).open() as lab:
        made = run(lab)
        assert [one.query_id for one in made.queries] == ["q1", "q2", "q3", "q4"]
        assert made.corpus.documents == 2
    for source in (IndexSource(folder, golden=tmp_path / "no.yaml"), IndexSource(folder, corpus=tmp_path / "no")):
        with pytest.raises(InputError, match="not there"):
            source.open()


def test_nothing_is_ever_written_into_an_index(folder: Path, no_server: None) -> None:  # noqa: ARG001
    with IndexSource(folder).open() as lab:
        History(lab.corpus).add("a question")
        assert folder not in resolve_run("one", lab.corpus).parents
    assert sorted(one.name for one in folder.iterdir()) == ["bm25.idx", "docs.jsonl", "meta.json", "vectors.f32"]


@pytest.mark.parametrize(("model", "why"), [("word2vec", "word2vec"), ("", "''")])
def test_an_index_whose_embedder_is_not_to_be_had_is_searched_by_words_alone(
    tmp_path: Path,
    model: str,
    why: str,
    no_server: None,  # noqa: ARG001
) -> None:
    plain.write_index(tmp_path / "index", ["kv cache", "kv cache eviction"], [[1.0, 0], [0, 1.0]], model=model)
    with IndexSource(tmp_path / "index").open() as lab:
        assert [one.name for one in lab.config.retrievers] == ["bm25"]
        trace = lab.trace("cache eviction")
        assert trace.final[0].chunk_id == "d0#001"
        assert "BM25 alone" in trace.notes[0]
        assert why in trace.notes[0]
        with pytest.raises(InputError, match=r"flat \(flat\) does not work.*BM25 alone.*tfidf, lsa do"):
            lab.trace("cache", replace(lab.config, retrievers=(FlatSearch(),)))


# --- its settings --------------------------------------------------------------------------------------------------


def test_settings_come_from_a_file_and_from_options(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("top_k: 3\nretrievers:\n  words: {kind: bm25, k1: 2}\n", encoding="utf-8")
    source = IndexSource(folder, path=file, overrides=("retrievers.words.n=7", "reranker=none"))
    config = source.open().config
    assert [(one.name, one.n) for one in config.retrievers] == [("words", 7)]
    assert (config.top_k, config.reranker.kind, config.mmr_lambda) == (3, "none", None)
    config = IndexSource(folder, overrides=("retrievers.flat.n=9",)).open().config
    assert [(one.name, one.n) for one in config.retrievers] == [("bm25", 50), ("flat", 9)]


def test_the_configurations_that_have_a_name_are_offered_as_they_work_over_the_index(opened: IndexLab) -> None:
    found = {one.name: one for one in opened.offered(configurations(opened.corpus))}
    served = {name for name, one in found.items() if one.config is not None}
    assert {"bm25", "bm25-stemmed", "tfidf", "lsa"} <= served
    assert not {"default", "vector", "hnsw", "full-text"} & served
    assert "PostgreSQL" in found["default"].faults[0]
    config = found["bm25-stemmed"].config
    assert config is not None
    assert opened.trace("rising dough", config).final[0].chunk_id == "bread#002"


def test_what_the_index_settles_cannot_be_set_otherwise(folder: Path) -> None:
    with pytest.raises(InputError, match=r"--set: chunker: the index was made with kind markdown, max_chars 1200"):
        IndexSource(folder, overrides=("chunker.max_chars=800",)).open()
    with pytest.raises(InputError, match=r"--set: embedder: the index was made with kind hash, dims 256"):
        IndexSource(folder, overrides=("embedder.dims=64",)).open()
    assert IndexSource(folder, overrides=("chunker.max_chars=1200",)).open().config.chunker == MarkdownChunker()


def test_the_settings_of_an_index_are_read_from_it(corpus: Path, tmp_path: Path) -> None:
    indexing = replace(
        PipelineConfig().indexing, chunker=WordChunker(20, 5), embedder=HashEmbedding(32), contextual_headers=True
    )
    export_index(corpus, indexing).index.write(tmp_path / "other")
    with IndexSource(tmp_path / "other", corpus).open() as lab:
        assert lab.config.indexing == indexing
        assert run(lab).corpus.chunks == lab.index.chunks
        first = lab.chunks(["bread#000"])["bread#000"]
        assert lab.parse_passage("bread#000").text == f"{first.heading_path}\n\n{first.text}"


# --- while it is open ----------------------------------------------------------------------------------------------


def test_files_that_change_are_told(opened: IndexLab, corpus: Path, folder: Path) -> None:
    assert opened.changed_files() == ()
    (corpus / "golden.yaml").write_text(GOLDEN.replace("q4", "q5"), encoding="utf-8")
    export_index(corpus, replace(PipelineConfig().indexing, embedder=HashEmbedding(8))).index.write(folder)
    assert corpus / "golden.yaml" in opened.changed_files()
    assert folder / "vectors.f32" in opened.changed_files()
    (corpus / "docs" / "bread.md").write_text("# Other\n\nText.\n", encoding="utf-8")
    with pytest.raises(InputError, match="files changed since they were indexed"):
        run(opened)


def test_a_question_ends_when_it_is_cancelled_and_the_next_is_answered(
    opened: IndexLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    find = opened.passages.fetch

    def slow(chunk_ids: Any) -> Any:
        begun.set()
        assert go.wait(20)
        return find(chunk_ids)

    caught: list[Exception] = []

    def ask() -> None:
        try:
            opened.trace("loaf")
        except Cancelled as error:
            caught.append(error)

    monkeypatch.setattr(opened.passages, "fetch", slow)
    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(20)
    opened.cancel()
    go.set()
    asking.join(20)
    assert len(caught) == 1
    assert opened.trace("loaf").final
    opened.cancel()  # nothing runs
    assert opened.trace("loaf").final
    with pytest.raises(Cancelled):
        opened.trace("loaf", cancelled=lambda: True)
    opened.close()
    opened.close()
    with pytest.raises(LabError, match="closed"):
        opened.trace("loaf")


def test_no_process_is_started(folder: Path, corpus: Path, tmp_path: Path) -> None:
    """In an interpreter of its own, with a data directory in which no server was ever."""
    data = tmp_path / "data"
    code = (
        "import sys\nfrom pathlib import Path\nfrom retrieval_lab import cli\n"
        "sys.addaudithook(lambda event, args: event in ('subprocess.Popen', 'socket.connect', 'os.fork')"
        " and sys.exit(f'{event} {args}'))\n"
        f"sys.exit(cli.main(['eval', {str(corpus)!r}, '--index', {str(folder)!r}, '--json']))"
    )
    env = {**os.environ, "RETRIEVAL_LAB_DATA_DIR": str(data), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr  # for q2, whose label finds no passage
    assert "q2" in done.stderr
    assert '"mrr@10"' in done.stdout
    assert not (data / "pg").exists()
    assert not list(data.glob("**/PG_VERSION"))
    shutil.rmtree(data, ignore_errors=True)


def test_a_query_is_expanded_over_an_index_as_over_the_server(corpus_dir: Path, tmp_path: Path) -> None:
    export_index(corpus_dir, PipelineConfig().indexing).index.write(tmp_path / "index")
    expanded = ("expansion.kind=rm3", "expansion.of=bm25")
    with (
        IndexSource(tmp_path / "index", corpus_dir, overrides=expanded).open() as ours,
        Lab.open(corpus_dir, ours.config) as server,
    ):
        here, there = ours.trace(ours.golden[7]), server.trace(server.golden[7])
        assert ours.config.expansion.kind == "rm3"
        assert (here.lists, here.final) == (there.lists, there.final)
