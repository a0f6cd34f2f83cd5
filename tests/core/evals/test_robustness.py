"""Golden queries in other words, asked of a corpus of which every list is known by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.robustness import Robustness, robustness
from retrieval_lab.golden import load_golden
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import NoReranker

# Full text alone: what has no lexeme in common is not found, and no rank hangs on a vector.
CONFIG = PipelineConfig(retrievers=(TextSearch(),), reranker=NoReranker(), mmr_lambda=None)

# A word such as `kneeee` has one pair that a typo can swap; words of three letters stay, and `fix` has a synonym.
DOCS = {"bread": "Loaf kneeee, oven.", "soup": "Fix the pot.", "tea": "Tea, repair, repair the pot."}
GOLDEN = """\
- {query_id: q1, query: kneeee, kind: known, doc_id: bread, anchor: oven, split: dev}
- {query_id: q2, query: fix pot, kind: known, doc_id: soup, anchor: fix, split: dev}
- {query_id: q3, query: fix, kind: unknown, doc_id: tea, anchor: milk}
- {query_id: q4, query: fix pot, kind: unknown, relevant: []}
- {query_id: q5, query: tea, kind: known, doc_id: tea, anchor: tea}
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("robust") / "kitchen"
    (folder / "docs").mkdir(parents=True)
    for name, text in DOCS.items():
        (folder / "docs" / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def lab(database: Database, corpus: Path) -> Iterator[Lab]:  # noqa: ARG001 - keeps the server up
    with Lab.open(corpus, CONFIG) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(lab: Lab) -> Robustness:
    return robustness(lab)


def test_a_typo_loses_the_only_word(found: Robustness) -> None:
    typos = found.kinds["typos"]
    assert [(one.query_id, one.query) for one in typos.queries] == [("q1", "keneee")]
    assert (typos.unchanged, typos.excluded) == (("q2", "q3", "q4", "q5"), ())
    effect = typos.effect
    assert effect is not None
    assert effect.queries == 1
    recall = effect.measures["recall@10"]
    assert (recall.baseline, recall.system, recall.difference, recall.difference_interval) == (1, 0, -1, None)
    assert effect.ranks["text"].lost == ("q1",)
    assert [(one.before, one.after) for one in effect.worse] == [("kneeee", "keneee")]


def test_a_synonym_finds_another_passage_first(found: Robustness) -> None:
    synonyms = found.kinds["synonyms"]
    assert {one.query_id: one.query for one in synonyms.queries} == {
        "q2": "repair pot",
        "q3": "repair",
        "q4": "repair pot",
    }
    assert (synonyms.unchanged, synonyms.excluded) == (("q1", "q5"), ("q3", "q4"))
    effect = synonyms.effect
    assert effect is not None
    # Of "fix pot" soup has both words and tea one; of "repair pot" tea has one of them twice, and soup only the other.
    assert effect.queries == 1
    (moved,) = effect.worse
    assert (moved.ranks_before["final"], moved.ranks_after["final"]) == (1, 2)
    assert effect.ranks["final"].median_move == 1
    assert effect.measures["mrr@10"].difference == -0.5


def test_reversed_words_are_the_same_to_a_list_of_words(found: Robustness) -> None:
    reversed_ = found.kinds["reversed"]
    assert {one.query_id: one.query for one in reversed_.queries} == {"q2": "pot fix", "q4": "pot fix"}
    assert reversed_.excluded == ("q4",)
    assert reversed_.effect is not None
    assert reversed_.effect.moved == ()
    assert {one.difference for one in reversed_.effect.measures.values()} == {0}


def test_the_original_is_what_an_evaluation_gives(lab: Lab, found: Robustness) -> None:
    assert (found.queries, found.undefined, found.config) == (5, ("q3",), CONFIG)
    by_id = {one.query.query_id: one for one in lab.evaluate_queries()}
    for one in found.kinds.values():
        if one.effect is not None:
            counted = [by_id[query.query_id] for query in one.queries if query.query_id not in one.excluded]
            assert one.effect.measures["mrr@10"].baseline == sum(it.mrr for it in counted) / len(counted)
    assert json.loads(json.dumps(found.to_dict()))["kinds"]["typos"]["queries"] == {"q1": "keneee"}


def test_kinds_split_configuration_and_progress(lab: Lab) -> None:
    heard: list[tuple[int, int]] = []
    config = replace(CONFIG, top_k=1)
    found = robustness(
        lab, config, kinds=("reversed", "reversed"), split="dev", progress=lambda *now: heard.append(now)
    )
    assert (list(found.kinds), found.queries) == (["reversed"], 2)
    assert found.kinds["reversed"].effect is not None
    assert "recall@1" in found.kinds["reversed"].effect.measures
    assert heard == [(0, 3), (1, 3), (2, 3), (2, 3), (3, 3)]
    with pytest.raises(InputError, match="'shout' is unknown"):
        robustness(lab, kinds=("shout",))
    with pytest.raises(InputError, match="no query of the split 'test'"):
        robustness(lab, split="test")
    with pytest.raises(Cancelled):
        robustness(lab, cancelled=lambda: True)


def test_a_lab_evaluates_other_queries_than_its_own(lab: Lab, corpus: Path) -> None:
    q1, *_, q5 = load_golden(corpus / "golden.yaml")
    other = replace(q1, query="keneee"), replace(q5, query_id="mine")
    results = lab.evaluate_queries(golden=other)
    assert [(one.query, one.recall, one.ranks["final"]) for one in results] == [(other[0], 0, None), (other[1], 1, 1)]
    assert lab.evaluate_queries(golden=()) == []
    with pytest.raises(InputError, match="a split is one of golden"):
        lab.evaluate_queries(golden=other, split="dev")
