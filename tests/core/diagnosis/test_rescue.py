"""Rescues: small corpora in which it is known what helps, and the bundled one, where each is run again from scratch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.assembly import Bench, assembled
from retrieval_lab.database import Database, make_schema
from retrieval_lab.diagnosis.rescue import Cost, Rescue, Rescues, step_between
from retrieval_lab.diagnosis.rescue_effect import Effect
from retrieval_lab.diagnosis.rescue_grid import Dial, dials, index_variants, switches
from retrieval_lab.diagnosis.rescue_index import drop_abandoned, temporary_index
from retrieval_lab.diagnosis.rescue_terms import terms, without_a_term
from retrieval_lab.diagnosis.rescues import rescues
from retrieval_lab.embed import QueryVectors
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.resampling import paired_bootstrap_interval
from retrieval_lab.index import lock_key
from retrieval_lab.metrics import QueryResult
from retrieval_lab.retrievers.base import Surroundings
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import (
    DocumentChunker,
    MarkdownChunker,
    ModelEmbedding,
    NoReranker,
    RrfFusion,
    SentenceChunker,
    WordChunker,
)
from retrieval_lab.types import Filter, GoldenQuery, Ranked

PLAIN = PipelineConfig(retrievers=(TextSearch(n=2),), reranker=NoReranker(), mmr_lambda=None, top_k=1)
"""Full text alone, and nothing after it; rows that match equally well are ordered by their ids."""


@pytest.fixture(autouse=True)
def _server(database: Database) -> None:
    """Keeps the server up between labs."""


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., Path]:
    """Makes a corpus of stories, each of one chunk, and documents, with golden queries."""

    def make(
        stories: Mapping[str, str],
        golden: list[tuple[str, str, str]] | None = None,
        docs: Mapping[str, str] | None = None,
    ) -> Path:
        for folder, suffix, texts in (("stories", "txt", stories), ("docs", "md", docs or {})):
            (tmp_path / folder).mkdir()
            for name, text in texts.items():
                (tmp_path / folder / f"{name}.{suffix}").write_text(f"{text}\n", encoding="utf-8")
        rows = [
            {"query_id": f"q{number}", "query": query, "kind": "k", "doc_id": doc_id, "anchor": anchor}
            for number, (query, doc_id, anchor) in enumerate(golden or [], start=1)
        ]
        if rows:
            (tmp_path / "golden.yaml").write_text(json.dumps(rows), encoding="utf-8")
        return tmp_path

    return make


def summary(found: Rescues) -> dict[str, object]:
    """What was found: of an edit its term, of a setting its new value, by what was varied."""
    return {
        one.setting: one.edit.term
        if one.edit
        else next((change.system for change in one.changed if change.key == one.setting), "several")
        for one in found.rescues
    }


def rerun(lab: Lab, found: Rescues, one: Rescue) -> int | None:
    """The rank of the passage in a pipeline run from scratch as the rescue says."""
    golden = lab.golden_query(found.query_id) if found.query_id else None
    if one.config.indexing == lab.config.indexing:
        made = lab.trace(one.edit.query if one.edit else found.query, one.config)
        wanted = found.wanted
    else:
        with Lab.open(lab.corpus, one.config) as other:
            made = other.trace(golden or found.query)
            wanted = made.relevant or found.wanted
    return next((row.rank for row in made.final if row.chunk_id in wanted), None)


@pytest.fixture
def own(database: Database) -> Iterator[Database]:
    """A database in which no other test makes or drops anything meanwhile."""
    name = f"lab_test_{uuid.uuid4().hex[:12]}"
    with database.connect() as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with Database.open(make_conninfo(database.dsn, dbname=name)) as opened:
            yield opened
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def schema_names(database: Database) -> set[str]:
    with database.connect() as conn:
        return {str(name) for (name,) in conn.execute("SELECT nspname FROM pg_namespace")}


# --- exactly one thing helps ---------------------------------------------------------------------------------------


def test_dropping_a_term_is_the_only_rescue(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple", "b": "cherry"}, [("apple cherry", "b", "cherry")])
    with Lab.open(folder, PLAIN) as lab:
        found = rescues(lab, lab.golden[0])
        (one,) = found.rescues
        assert (one.cost, one.setting, one.edit and (one.edit.term, one.edit.query)) == (
            Cost.QUERY,
            "drop a term",
            ("apple", "cherry"),
        )
        assert (found.before, one.before, one.after, one.chunk_id) == (2, 2, 1, "b#000")
        assert (one.changed, one.effect, one.no_effect) == ((), None, "an edit of this query changes no other")
        assert rerun(lab, found, one) == 1
        tried = {(row.setting, row.range): (row.values, row.reason) for row in found.tried}
        assert tried["add a term", "the rarest terms of the passage"] == (
            0,
            "the passage has no term that the query lacks",
        )
        assert tried["retrievers.text.n", "1 to 1"] == (1, None)
        assert tried["retrievers.text.operators", "off"] == (1, None)
        assert tried["fusion.k", "59 to 0"] == (60, None)


def test_adding_a_term_of_the_passage_is_the_only_rescue(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple", "b": "apple Cherries", "c": "cherry"}, [("apple", "b", "apple cherries")])
    with Lab.open(folder, PLAIN) as lab:
        found = rescues(lab, lab.golden[0])
        (one,) = found.rescues
        assert one.edit is not None
        assert (one.cost, one.edit.term, one.edit.query, one.edit.found_in) == (
            Cost.HINT,
            "Cherries",
            "apple Cherries",
            2,
        )
        assert rerun(lab, found, one) == one.after == 1
        assert ("drop a term", "no word would be left") in {(row.setting, row.reason) for row in found.tried}


def test_operators_off_is_the_only_rescue_of_an_excluded_passage(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "cherry cake", "b": "cherry pie"}, [("cherry -pie", "b", "pie")])
    with Lab.open(folder, PLAIN) as lab:
        found = rescues(lab, lab.golden[0])
        assert [(one.cost, one.setting, one.after) for one in found.rescues] == [
            (Cost.STAGE, "retrievers.text.operators", 1)
        ]
        (change,) = found.rescues[0].changed
        assert (change.key, change.baseline, change.system) == ("retrievers.text.operators", True, False)
        assert found.before is None


def test_a_deeper_list_is_the_only_rescue(corpus: Callable[..., Path]) -> None:
    folder = corpus(dict.fromkeys("abcdef", "apple"), [("apple", "e", "apple")])
    config = replace(PLAIN, retrievers=(TextSearch(n=2),), top_k=5)
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0])
        assert summary(found) == {"retrievers.text.n": 5}
        assert found.rescues[0].step == pytest.approx((5 - 2) / 5)
        assert rerun(lab, found, found.rescues[0]) == 5


def test_a_larger_pool_is_the_only_rescue(corpus: Callable[..., Path]) -> None:
    # Full text puts the long ones with two apples first, BM25 the short one.
    filler = " ".join(f"word{number}" for number in range(20))
    texts = {"a": f"apple apple {filler}", "b": "apple", "c": f"apple apple {filler}"}
    folder = corpus(texts, [("apple", "b", "apple")])
    config = PipelineConfig(retrievers=(TextSearch(n=3),), fusion=RrfFusion(n=2), top_k=1)
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0])
        assert found.before is None
        assert summary(found) == {"fusion.n": 3}
        assert rerun(lab, found, found.rescues[0]) == 1


def test_mmr_alone_is_to_blame(corpus: Callable[..., Path]) -> None:
    # BM25 has a, b, c; b says the same as a, so MMR takes c. Full text has c first: a smaller pool would not help.
    texts = {"a": "apple pear", "b": "apple pear", "c": f"apple apple {' '.join('xyzuvw' * 3)} other words"}
    folder = corpus(texts, [("apple", "b", "apple")])
    config = PipelineConfig(retrievers=(TextSearch(n=3),), fusion=RrfFusion(n=3), top_k=2, mmr_lambda=0.3)
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0])
        assert found.before == 3
        by_value, by_stage = found.rescues
        assert (by_value.cost, by_value.setting, by_stage.cost, by_stage.setting) == (
            Cost.VALUE,
            "mmr_lambda",
            Cost.STAGE,
            "mmr_lambda",
        )
        (turned,), (off,) = by_value.changed, by_stage.changed
        assert (turned.baseline, off.baseline, off.system) == (0.3, 0.3, None)
        # It is the smallest: a hundredth less does not do.
        assert {lab.trace("apple", replace(config, mmr_lambda=turned.system - 0.01)).final[1].chunk_id} == {"c#000"}
        assert rerun(lab, found, by_value) == rerun(lab, found, by_stage) == 2


def test_the_reranker_is_to_blame(corpus: Callable[..., Path]) -> None:
    filler = " ".join(f"word{number}" for number in range(20))
    texts = {"a": f"apple apple {filler}", "b": "apple", "c": "apple"}
    folder = corpus(texts, [("apple", "a", "apple")])
    config = PipelineConfig(retrievers=(TextSearch(n=3),), fusion=RrfFusion(n=3), top_k=1, mmr_lambda=1.0)
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0])
        # A pool of the first alone leaves the reranker nothing to choose. Words of its own would raise it, too.
        without_hints = replace(found, rescues=tuple(one for one in found.rescues if one.cost is not Cost.HINT))
        assert summary(without_hints) == {
            "fusion.n": 1,
            "retrievers.text.n": 1,
            "every n": "several",
            "reranker.kind": "none",
        }
        keys = [change.key for change in without_hints.rescues[-1].changed]
        assert keys == ["reranker.kind", "reranker.k1", "reranker.b", "mmr_lambda"]
        assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]


def test_a_filter_that_leaves_the_passage_out_is_to_blame(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple", "b": "apple pear"}, [("apple", "b", "pear")])
    config = PipelineConfig(
        retrievers=(TextSearch(n=3),), fusion=RrfFusion(n=3), top_k=2, filter=Filter(("a",)), mmr_lambda=1.0
    )
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0])
        assert [one.setting for one in found.rescues] == ["filter.doc_ids"]
        assert found.rescues[0].title == "filter.doc_ids a → –"
        assert rerun(lab, found, found.rescues[0]) == found.rescues[0].after


def test_the_weight_of_a_side_is_turned_to_the_next_hundredth(corpus: Callable[..., Path]) -> None:
    # Vectors like the one without other words best, full text likes the repetition: a tie that the id decides for a.
    folder = corpus({"a": "apple", "b": "apple apple pear"}, [("apple", "b", "pear")])
    config = replace(PLAIN, retrievers=(VectorSearch(n=2), TextSearch(n=2)), fusion=RrfFusion(n=2))
    with Lab.open(folder, config) as lab:
        made = lab.trace("apple", config)
        assert [[hit.chunk_id for hit in hits] for hits in made.lists.values()] == [
            ["a#000", "b#000"],
            ["b#000", "a#000"],
        ]
        found = rescues(lab, lab.golden[0])
        values = {setting: value for setting, value in summary(found).items() if "weight" in setting}
        assert values == {"retrievers.vector.weight": 0.99, "retrievers.text.weight": 1.01}
        assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]


# --- other indexes -------------------------------------------------------------------------------------------------


def test_the_heading_before_the_text_is_the_only_rescue(corpus: Callable[..., Path], own: Database) -> None:
    paragraph, wanted = "x" * 99, "y" * 99
    folder = corpus({}, [("cherry", "tree", wanted)], {"tree": f"# Cherry\n\n{paragraph}\n\n{wanted}"})
    config = replace(PLAIN, retrievers=(TextSearch(n=3),), top_k=3, chunker=MarkdownChunker(max_chars=100))
    with Lab.open(folder, config, own.dsn) as lab:
        before = schema_names(own)
        found = rescues(lab, lab.golden[0], reindex=True)
        assert schema_names(own) == before
        without_hints = [one for one in found.rescues if one.cost is not Cost.HINT]
        assert [(one.cost, one.setting) for one in without_hints] == [(Cost.INDEX, "contextual_headers")]
        assert rerun(lab, found, without_hints[0]) == without_hints[0].after
        assert sum(row.setting.startswith("chunker.") for row in found.tried) == 8
        assert rescues(lab, lab.golden[0]).rescues == tuple(one for one in found.rescues if one.cost is Cost.HINT)


def test_another_cut_finds_the_anchor_that_no_chunk_holds(corpus: Callable[..., Path]) -> None:
    first, second, third = ("x" * 35 + " one", "two " + "y" * 35, "three " + "z" * 33)
    docs = {"doc": f"{first}\n\n{second}\n\n{third}"}
    folder = corpus({"a": "nothing"}, [("two", "doc", f"{'y' * 35} three")], docs)
    config = replace(PLAIN, top_k=2, chunker=MarkdownChunker(max_chars=100, overlap=0))
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0], reindex=True)
        assert (found.wanted, found.before, found.is_miss) == ((), None, True)
        assert found.unlabelled is not None
        assert found.tried[0].setting == "query and settings"
        assert found.tried[0].reason == found.unlabelled
        values = [(one.setting, one.changed[0].baseline, one.changed[0].system) for one in found.rescues]
        assert values == [
            ("chunker.max_chars", 100, 150),
            ("chunker.max_chars", 100, 200),
            ("chunker.overlap", 0, 1),
        ]
        assert {(one.after, one.chunk_id) for one in found.rescues} == {(1, "doc#000"), (2, "doc#001")}
        assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]
        assert ("contextual_headers", "no chunk of this index holds the anchor") in {
            (row.setting, row.reason) for row in found.tried
        }


def test_a_passage_known_by_its_id_alone_has_no_place_in_another_cut(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple", "b": "cherry"})
    with Lab.open(folder, PLAIN) as lab:
        found = rescues(lab, "apple", "b#000", reindex=True)
        reasons = {row.setting: row.reason for row in found.tried if row.setting.startswith("chunker.")}
        assert set(reasons) == {"chunker.max_chars", "chunker.overlap"}
        assert all(reason and "by its chunk id alone" in reason for reason in reasons.values())
        assert [(row.values, row.reason) for row in found.tried if row.setting == "contextual_headers"] == [(1, None)]


def test_an_index_by_a_model_is_made_only_when_asked_for(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple", "b": "cherry"}, [("apple", "b", "cherry")])
    with Lab.open(folder, PLAIN) as lab:
        slow = replace(lab.config, embedder=ModelEmbedding())
        # The index of a lab is that of its configuration; what is asked here never embeds.
        lab.config = slow
        found = rescues(lab, lab.golden[0], reindex=True)
        reasons = [row.reason for row in found.tried if row.setting in ("contextual_headers", "chunker.overlap")]
        assert len(reasons) == 4
        assert all(reason and "it was not asked for" in reason for reason in reasons)


# --- the database is left as it was --------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["indexing 0 of", "indexing 1 of", "chunker.overlap"])
def test_nothing_stays_after_a_cancel_or_an_error(moment: str, corpus: Callable[..., Path], own: Database) -> None:
    folder = corpus({"a": "apple", "b": "cherry"}, [("apple", "b", "cherry")])
    with Lab.open(folder, PLAIN, own.dsn) as lab:
        before = schema_names(own)
        heard: list[str] = []

        def cancelled() -> bool:
            return bool(heard) and moment in heard[-1]

        with pytest.raises(Cancelled):
            rescues(lab, lab.golden[0], reindex=True, progress=lambda *one: heard.append(one[2]), cancelled=cancelled)
        assert schema_names(own) == before

        def failing(_done: int, _total: int, what: str) -> None:
            if moment in what:
                raise ZeroDivisionError(what)

        with pytest.raises(ZeroDivisionError):
            rescues(lab, lab.golden[0], reindex=True, progress=failing)
        assert schema_names(own) == before
        assert lab.trace("apple").final


KILLED = """
import os, signal, sys
from retrieval_lab import Lab
from retrieval_lab.diagnosis.rescues import rescues
from tests.core.diagnosis.test_rescue import PLAIN

def die(done, total, what):
    if "indexing 1 of" in what:
        os.kill(os.getpid(), signal.SIGKILL)

with Lab.open(sys.argv[1], PLAIN, sys.argv[2]) as lab:
    rescues(lab, lab.golden[0], reindex=True, progress=die)
"""


def test_what_a_killed_process_left_is_dropped_by_the_next(corpus: Callable[..., Path], own: Database) -> None:
    folder = corpus({"a": "apple", "b": "cherry"}, [("plum", "b", "cherry")])
    with Lab.open(folder, PLAIN, own.dsn) as lab:
        before = schema_names(own)
        path = os.pathsep.join([str(Path.cwd()), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(folder), own.dsn],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == -9, done.stderr
        left = schema_names(own) - before
        assert [name.startswith("lab_rescue_") for name in left] == [True]
        wait_for_the_end_of_others(own)
        rescues(lab, lab.golden[0], reindex=True)
        assert schema_names(own) == before


def wait_for_the_end_of_others(own: Database) -> None:
    """The server notices only after a moment that a client died in the middle of a statement."""
    with own.connect() as conn:
        for _ in range(200):
            row = conn.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            ).fetchone()
            if row == (0,):
                return
            time.sleep(0.05)
    pytest.fail("the killed process still holds its lock")


def test_the_index_of_another_process_at_work_is_left_alone(own: Database) -> None:
    with own.connect() as owner, own.connect() as conn:
        for name in ("lab_rescue_test_alive", "lab_rescue_test_dead"):
            make_schema(owner, name, "a test")
        owner.execute("SELECT pg_advisory_lock(%s)", (lock_key("owner of lab_rescue_test_alive"),))
        assert drop_abandoned(conn) == ["lab_rescue_test_dead"]
        owner.execute("SELECT pg_advisory_unlock_all()")
        assert drop_abandoned(conn) == ["lab_rescue_test_alive"]


def test_an_index_that_is_kept_already_is_used_and_stays(corpus: Callable[..., Path], own: Database) -> None:
    folder = corpus({"a": "apple", "b": "cherry"}, [("apple", "b", "cherry")])
    headers = replace(PLAIN, contextual_headers=True)
    with Lab.open(folder, headers, own.dsn) as kept, Lab.open(folder, PLAIN, own.dsn) as lab:
        before = schema_names(own)
        with temporary_index(lab.connect, folder, headers.indexing, lab.embedder) as (_, table):
            assert table.schema == kept.schema
            assert schema_names(own) == before
        assert schema_names(own) == before
        assert kept.trace("apple").final


# --- the bundled corpus --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:  # noqa: ARG001 - keeps the server up
    with Lab.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def q23(lab: Lab) -> Rescues:
    return rescues(lab, lab.golden_query("q23"))


@pytest.mark.parametrize("query_id", ["q11", "q25"])
def test_every_rescue_puts_the_passage_into_the_final_list(query_id: str, lab: Lab) -> None:
    found = rescues(lab, lab.golden_query(query_id))
    assert found.rescues
    assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]


def test_rescues_of_every_cost_stand_in_order_and_survive_json(lab: Lab, q23: Rescues) -> None:
    assert [rerun(lab, q23, one) for one in q23.rescues] == [one.after for one in q23.rescues]
    costs = [one.cost for one in q23.rescues]
    assert sorted(costs, key=["query", "value", "stage", "hint", "index"].index) == costs
    assert set(costs) == {Cost.QUERY, Cost.VALUE, Cost.STAGE, Cost.HINT}
    steps = [one.step for one in q23.rescues if one.cost is Cost.VALUE]
    assert steps == sorted(step for step in steps if step is not None)
    assert q23.smallest == q23.rescues[0]
    assert Rescues.from_dict(json.loads(json.dumps(q23.to_dict()))) == q23


def test_every_smaller_step_misses_when_run_from_scratch(lab: Lab) -> None:
    config = replace(lab.config, reranker=NoReranker(), mmr_lambda=None, top_k=3)
    found = rescues(lab, lab.golden_query("q04"), config=config)
    turned = {one.setting: one for one in found.rescues if one.setting.endswith((".n", ".k"))}
    assert set(turned) == {"fusion.k", "retrievers.text.n", "retrievers.vector.n"}
    for one in turned.values():
        assert rerun(lab, found, one) == one.after
        assert set(smaller_steps(lab, found, one)) == {None}


def smaller_steps(lab: Lab, found: Rescues, one: Rescue) -> Iterator[int | None]:
    """The rank of the passage at each whole value between the old and the new one."""
    (change,) = one.changed
    sign = 1 if change.system > change.baseline else -1
    for value in range(int(change.system) - sign, int(change.baseline), -sign):
        data = found.config.to_dict()
        section: dict[str, Any] = data
        *path, key = change.key.split(".")
        for name in path:
            section = section[name]
        section[key] = value
        yield rerun(lab, found, replace(one, config=PipelineConfig.from_dict(data)))


def test_the_effect_is_the_difference_of_two_plain_evaluations(lab: Lab, q23: Rescues) -> None:
    before = evaluated(lab, lab.config)
    for one in q23.rescues:
        if one.effect is not None:
            assert one.effect.queries == 47
            compare(one.effect, before, evaluated(lab, one.config))
    assert any(one.effect and one.effect.gained and one.effect.lost for one in q23.rescues)


def evaluated(lab: Lab, config: PipelineConfig) -> dict[str, QueryResult]:
    return {one.query.query_id: one for one in lab.evaluate_queries(config) if one.query.query_id != "q23"}


def compare(effect: Effect, before: Mapping[str, QueryResult], after: Mapping[str, QueryResult]) -> None:
    assert list(effect.gained) == [key for key in before if before[key].hit == 0 and after[key].hit == 1]
    assert list(effect.lost) == [key for key in before if before[key].hit == 1 and after[key].hit == 0]
    for name, estimate in (("recall", effect.recall), ("mrr", effect.mrr)):
        ours, theirs = ([getattr(run[key], name) for key in before] for run in (after, before))
        assert estimate.value == pytest.approx((sum(ours) - sum(theirs)) / len(before), abs=1e-12)
        interval = paired_bootstrap_interval(ours, theirs)
        assert interval is not None
        assert estimate.interval is not None
        assert (estimate.interval.low, estimate.interval.high) == pytest.approx((interval.low, interval.high))


def test_lists_of_an_index_scan_are_asked_for_at_each_depth(lab: Lab) -> None:
    config = replace(
        lab.config, retrievers=(VectorSearch(n=12, scan="hnsw"),), fusion=RrfFusion(n=30), mmr_lambda=0.7, top_k=5
    )
    checked = 0
    for query_id in ("q08", "q23", "q25"):
        found = rescues(lab, lab.golden_query(query_id), config=config)
        assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]
        checked += sum(one.setting == "retrievers.vector.n" for one in found.rescues)
    assert checked


def test_lists_that_may_be_cut_begin_with_the_shallower_ones(lab: Lab) -> None:
    def lists(bench: Bench) -> None:
        on = Surroundings(bench.conn, QueryVectors(bench.embedder), bench.table)
        for settings in (VectorSearch(), TextSearch()):
            assert settings.extends
            retriever = settings.build(on)
            for golden in lab.golden[::8]:
                deep = retriever.search(golden.query, 1000)
                assert [retriever.search(golden.query, n) for n in (1, 7, 50, 300)] == [
                    deep[:n] for n in (1, 7, 50, 300)
                ]

    lab.work(lists)
    assert not VectorSearch(scan="hnsw").extends


def test_fusion_alone_gives_the_fused_list_of_the_whole_run(lab: Lab) -> None:
    def fused(bench: Bench) -> list[Ranked]:
        on = Surroundings(bench.conn, QueryVectors(bench.embedder), bench.table)
        return assembled(bench.config, on, bench.reranker(bench.config.reranker)).fused("who painted the inn sign?")

    assert tuple(lab.work(fused)) == lab.trace("who painted the inn sign?").fused


def test_a_search_can_be_cancelled_between_any_two_runs(lab: Lab) -> None:
    golden, asked = lab.golden_query("q23"), 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 60

    heard: list[tuple[int, int, str]] = []
    with pytest.raises(Cancelled, match="of 21 steps"):
        rescues(lab, golden, progress=lambda *one: heard.append(one), cancelled=cancelled)
    assert asked == 61
    assert heard[0][:2] == (0, 21)


def test_progress_counts_every_step(lab: Lab) -> None:
    heard: list[tuple[int, int, str]] = []
    rescues(lab, lab.golden_query("q22"), progress=lambda *one: heard.append(one))
    assert [done for done, _, _ in heard] == [*range(22)]
    assert {total for _, total, _ in heard} == {21}
    assert [*(what for _, _, what in heard[:3]), heard[-1][2]] == ["drop a term", "add a term", "fusion.n", "done"]


def test_nothing_helps_is_a_finding(lab: Lab) -> None:
    found = rescues(lab, lab.golden_query("q32"))
    assert (found.rescues, found.smallest, found.is_miss, found.before) == ((), None, True, None)
    assert len(found.tried) == 21
    assert {row.setting for row in found.tried} == {
        "drop a term",
        "add a term",
        *(f"fusion.{key}" for key in ("n", "k")),
        *(f"retrievers.{side}.{key}" for side in ("vector", "text") for key in ("n", "weight")),
        "every n",
        "mmr_lambda",
        "retrievers.text.operators",
        "reranker.kind",
    }
    assert Rescues.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_passage_that_is_no_miss_needs_no_rescue(lab: Lab) -> None:
    golden = lab.golden_query("q01")
    found = rescues(lab, golden, reindex=True)
    rank = lab.trace(golden).fate()["final"].rank
    assert (found.before, found.is_miss, found.rescues, found.tried) == (rank, False, (), ())


@pytest.mark.parametrize(
    "query", ["", "!!!", "'; DROP TABLE chunks; --", "-" * 40, '"unclosed phrase', "a\x00b \ud800", "🙂 <b>[/b]", "the"]
)
def test_hostile_queries_are_searched_like_others(query: str, lab: Lab) -> None:
    found = rescues(lab, query, "chunking-and-embeddings#011")
    assert found.is_miss
    assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]


def test_a_query_of_many_words_is_tried_without_the_first_of_them(lab: Lab) -> None:
    query = " ".join(f"w{number}" for number in range(100))
    found = rescues(lab, query, "chunking-and-embeddings#011")
    assert ("drop a term", 64, "the query has 100 terms; only the first 64 were left out") in {
        (row.setting, row.values, row.reason) for row in found.tried
    }


def test_hostile_passages_give_terms_that_are_read_as_they_stand(corpus: Callable[..., Path]) -> None:
    text = "apple it's O'Neil a\\b don't 'quoted' -8 foo-bar x:y <tag> http://e.x/y?z=1 100% ☃ naïve"
    folder = corpus({"a": "apple", "b": text}, [("apple", "b", "naïve")])
    with Lab.open(folder, PLAIN) as opened:
        found = rescues(opened, opened.golden[0])
        added = [one.edit.term for one in found.rescues if one.edit]
        assert {"naïve", "foo-bar", "O"} <= set(added) | {"O"}
        assert "-8" not in added
        assert [rerun(opened, found, one) for one in found.rescues] == [one.after for one in found.rescues]


def test_a_passage_must_be_named_and_exist(lab: Lab) -> None:
    with pytest.raises(InputError, match="name its chunk"):
        rescues(lab, "a question")
    with pytest.raises(InputError, match="no chunk 'gone#000'"):
        rescues(lab, "a question", "gone#000")
    with pytest.raises(InputError, match="no chunk"):
        rescues(lab, "a question", "a\x00b")
    with pytest.raises(InputError, match="needs another index"):
        rescues(lab, "a question", "gone#000", replace(lab.config, contextual_headers=True))


def test_a_change_without_other_golden_queries_says_so(corpus: Callable[..., Path]) -> None:
    folder = corpus(dict.fromkeys("abc", "apple"))
    with Lab.open(folder, replace(PLAIN, top_k=3)) as opened:
        (one,) = rescues(opened, "apple", "c#000").rescues
        assert (one.setting, one.effect) == ("retrievers.text.n", None)
        assert one.no_effect == "no other golden query has a relevant passage"


def test_files_that_changed_are_not_indexed_in_another_way(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple", "b": "cherry"}, [("apple", "b", "cherry")])
    with Lab.open(folder, PLAIN) as opened:
        (folder / "stories" / "c.txt").write_text("plum\n", encoding="utf-8")
        with pytest.raises(InputError, match="files changed"):
            rescues(opened, opened.golden[0], reindex=True)


# --- the parts -----------------------------------------------------------------------------------------------------


def test_the_rungs_are_whole_units_then_twentieths_and_end_at_the_end() -> None:
    def rungs(now: float, end: float, per_unit: int = 1) -> list[float]:
        dial = Dial("x", now, end, per_unit, lambda _: None)
        return [dial.value(unit) for unit in dial.rungs()]

    assert rungs(50, 53) == [51, 52, 53]
    assert rungs(98, 120) == [99, 100, 101, 106, 111, 116, 120]
    assert rungs(3, 1) == [2, 1]
    assert rungs(210, 99) == [209, 199, 190, 181, 172, 164, 156, 149, 142, 135, 129, 123, 117, 112, 107, 102, 97 + 2]
    assert rungs(0.7, 0.73, 100) == [0.71, 0.72, 0.73]
    assert rungs(0.705, 0.69, 100) == [0.7, 0.69]
    assert rungs(60.5, 62) == [61, 62]
    assert rungs(0.5, 1) == [1]


def test_every_dial_of_the_usual_pipeline_and_no_others() -> None:
    config = PipelineConfig()
    found = {(dial.setting, dial.now, dial.end) for dial in dials(config, 600)}
    assert found == {
        *(("fusion.n", 50, end) for end in (10, 600)),
        *(("fusion.k", 60, end) for end in (0, 1000)),
        *((f"retrievers.{side}.n", 50, end) for side in ("vector", "text") for end in (1, 600)),
        *((f"retrievers.{side}.weight", 1.0, end) for side in ("vector", "text") for end in (0, 100)),
        *(("mmr_lambda", 0.7, end) for end in (0, 1)),
        *(("every n", 50, end) for end in (10, 600)),
    }
    assert [one.setting for one in switches(config)] == ["retrievers.text.operators", "mmr_lambda", "reranker.kind"]
    bare = PipelineConfig(retrievers=(VectorSearch(),), reranker=NoReranker(), mmr_lambda=None)
    assert not list(switches(bare))
    assert "mmr_lambda" not in {dial.setting for dial in dials(bare, 600)}
    without_mmr = PipelineConfig(mmr_lambda=None)
    assert {(dial.now, dial.end) for dial in dials(without_mmr, 600) if dial.setting == "mmr_lambda"} == {(1.0, 0)}


def test_all_depths_move_together_and_never_the_wrong_way() -> None:
    config = PipelineConfig(retrievers=(VectorSearch(n=30), TextSearch(n=80)), fusion=RrfFusion(n=50))
    up, down = (dial for dial in dials(config, 600) if dial.setting == "every n")

    def depths(dial: Dial, n: int) -> list[int]:
        made = dial.config(n)
        assert made is not None
        return [*(one.n for one in made.retrievers), made.fusion.n]

    assert (up.now, down.now) == (30, 80)
    assert depths(up, 60) == [60, 80, 60]
    assert depths(down, 40) == [30, 40, 40]
    assert down.config(9) is None


def test_nine_other_indexes_each_of_one_changed_setting() -> None:
    found = index_variants(PipelineConfig())
    assert [
        (one.config.chunker.max_chars, one.config.chunker.overlap, one.config.contextual_headers) for one in found
    ] == [
        (1200, 1, True),
        *((size, 1, False) for size in (900, 1800, 600, 2400, 300)),
        *((1200, overlap, False) for overlap in (0, 2, 3)),
    ]
    tiny = index_variants(PipelineConfig(chunker=MarkdownChunker(max_chars=1, overlap=9)))
    assert len({one.config for one in tiny}) == len(tiny) <= 9


@pytest.mark.parametrize(
    ("chunker", "sizes", "overlaps"),
    [
        # A quarter of 240 words would be no longer than the overlap.
        (WordChunker(), (180, 360, 120, 480), (30, 0, 120)),
        (WordChunker(100, 0), (75, 150, 50, 200, 25), (12, 25, 50)),
        (SentenceChunker(), (4, 8, 2, 10), (0, 2, 3)),
        (SentenceChunker(1, 0), (2,), ()),
        (DocumentChunker(), (), ()),
    ],
)
def test_other_indexes_of_chunks_that_are_counted_in_something_else(
    chunker: WordChunker | SentenceChunker | DocumentChunker, sizes: tuple[int, ...], overlaps: tuple[int, ...]
) -> None:
    config = PipelineConfig(chunker=chunker)
    headers, *others = index_variants(config)
    assert headers.config == replace(config, contextual_headers=True)
    assert [(one.setting, one.config) for one in others] == [
        *(("chunker.size", replace(config, chunker=replace(chunker, size=size))) for size in sizes),  # type: ignore
        *(("chunker.overlap", replace(config, chunker=replace(chunker, overlap=one))) for one in overlaps),  # type: ignore
    ]


def test_longer_windows_find_the_anchor_that_no_window_holds(corpus: Callable[..., Path]) -> None:
    docs = {"doc": "One came. Two went. Three stayed. Four slept. Five ate. Six drank."}
    folder = corpus({"a": "nothing"}, [("two three", "doc", "two went. three stayed")], docs)
    config = replace(PLAIN, top_k=2, chunker=SentenceChunker(2, 0))
    with Lab.open(folder, config) as lab:
        found = rescues(lab, lab.golden[0], reindex=True)
        values = [(one.setting, one.changed[0].baseline, one.changed[0].system, one.step) for one in found.rescues]
        assert values == [("chunker.size", 2, 3, 1 / 3), ("chunker.size", 2, 4, 0.5), ("chunker.overlap", 0, 1, 1)]
        assert [rerun(lab, found, one) for one in found.rescues] == [one.after for one in found.rescues]
        assert {row.range for row in found.tried if row.setting == "chunker.size"} == {"chunker.size 1"}


def test_of_whole_documents_only_the_headers_are_tried(corpus: Callable[..., Path]) -> None:
    folder = corpus({"a": "apple"}, [("pear", "a", "apple")])
    with Lab.open(folder, replace(PLAIN, chunker=DocumentChunker())) as lab:
        found = rescues(lab, lab.golden[0], reindex=True)
        assert not [row for row in found.tried if row.setting.startswith("chunker")]
        assert "contextual_headers" in {row.setting for row in found.tried}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("git commit -m", ["git", "commit", "-m"]),
        ('say "foo bar" -"baz qux" now', ["say", '"foo bar"', '-"baz qux"', "now"]),
        ("RAG - retrieval", ["RAG", "-", "retrieval"]),
        ('an "open phrase', ["an", '"open', "phrase"]),
        (" \t ", []),
    ],
)
def test_the_terms_of_a_query_are_its_phrases_and_what_white_space_parts(query: str, found: list[str]) -> None:
    assert terms(query) == found


def test_each_term_is_dropped_once_and_some_word_is_left() -> None:
    assert [(one.term, one.query) for one in without_a_term("the  cat and the dog")] == [
        ("the", "cat and the dog"),
        ("cat", "the and the dog"),
        ("and", "the  cat the dog"),
        ("the", "the  cat and dog"),
        ("dog", "the  cat and the"),
    ]
    assert [one.term for one in without_a_term("so so")] == ["so"]
    assert without_a_term("one") == without_a_term("one !!!")[:0] == []
    assert [one.query for one in without_a_term("one !!!")] == ["one"]


def test_a_step_is_a_share_of_the_larger_value() -> None:
    assert step_between(50, 100) == step_between(100, 50) == 0.5
    assert step_between(0, 0.01) == step_between(0.7, 0) == 1
    assert step_between(3, 3) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 1"),
        ({"before": 0}, "ranks count from 1"),
        ({"rescues": [{"cost": "free"}]}, "rescues.0..cost is 'free'"),
        ({"tried": None}, "tried is null"),
        ({"config": {"top_k": 0}}, "top_k"),
    ],
)
def test_a_broken_document_is_told_with_its_place(change: dict[str, Any], message: str, q23: Rescues) -> None:
    with pytest.raises(InputError, match=message):
        Rescues.from_dict({**q23.to_dict(), **change})
    with pytest.raises(InputError, match="no search for rescues of format"):
        Rescues.from_dict([])


def test_a_chunk_among_several_that_answer_can_be_named(lab: Lab) -> None:
    golden = next(one for one in lab.golden if len(lab.trace(one).relevant) > 1)
    last = lab.trace(golden).relevant[-1]
    found = rescues(lab, golden, last, replace(lab.config, top_k=1, fusion=RrfFusion(n=10)))
    assert (found.query_id, found.wanted) == (golden.query_id, (last,))


def test_a_golden_query_of_ones_own_is_taken_by_its_anchor(lab: Lab) -> None:
    mine = GoldenQuery("mine", "zzz", "k", "agent-loops", "the limit is 1,500 tokens for each result")
    found = rescues(lab, mine)
    assert found.wanted == ("agent-loops#002",)
    settings = [one for one in found.rescues if one.effect]
    assert all(one.effect and one.effect.queries == 48 for one in settings)
