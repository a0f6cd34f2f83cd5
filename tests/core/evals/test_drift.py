"""A second snapshot of a corpus: its documents, the labels that it loses, and what stands before answers, by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.evals.drift import Drift, LostLabel, Overtaken, drift
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import NoReranker
from tests.core.evals.made import files_of

# Full text alone, whose score grows with how often a word stands in a passage: every list can be told by hand.
CONFIG = PipelineConfig(retrievers=(TextSearch(),), reranker=NoReranker(), mmr_lambda=None, top_k=2)

BEFORE = {
    "bread": "The loaf rises.",
    "soup": "Boil the leeks.",
    "tea": "Steep the leaves.",
    "cake": "Beat the eggs.",
    "jam": "Cook the plums.",
    "salt": "Sea and rock.",
    "pie": "Roll the dough. " + "Butter. " * 150 + "Bake it hot.",
    "plain": "Water and flour.",
}
AFTER = {
    "bread": "The loaf rises.",  # the same, and overtaken by `loaves`
    "loaves": "A loaf, a loaf, a loaf.",
    "rolls": "A loaf or a loaf.",
    "soup": "Boil the onions.",  # the anchor is gone
    "leaves": "Steep the leaves.",  # tea by another name
    "jam": "",  # its text is gone, and cake is gone altogether
    "salt": "Sea and rock. And sea again.",
    "pie": "Roll the dough. " + "Butter. " * 150 + "Bake\n\nit hot.",  # the anchor now lies in two blocks
    "plain": "Water and flour.",
}
GOLDEN = """\
- {query_id: sinks, query: loaf, kind: k, doc_id: bread, anchor: rises, split: dev}
- {query_id: changed, query: leeks, kind: k, doc_id: soup, anchor: leeks}
- {query_id: renamed, query: leaves, kind: k, doc_id: tea, anchor: steep}
- {query_id: gone, query: eggs, kind: k, doc_id: cake, anchor: eggs}
- {query_id: emptied, query: plums, kind: k, doc_id: jam, anchor: plums}
- {query_id: cut, query: hot, kind: k, doc_id: pie, anchor: bake it hot}
- {query_id: never, query: hot, kind: k, doc_id: pie, anchor: cold}
- {query_id: stays, query: rock, kind: k, doc_id: salt, anchor: rock}
- {query_id: graded, query: flour, kind: k, relevant: {plain: 2, cake: 1, rolls: 1, soup: 0}}
- {query_id: lost, query: eggs, kind: k, relevant: {cake: 1, jam: 1}}
- {query_id: swapped, query: eggs, kind: k, relevant: {cake: 1, rolls: 1}}
- {query_id: nobody, query: who, kind: k, relevant: []}
"""


def make(folder: Path, documents: dict[str, str]) -> Path:
    (folder / "docs").mkdir(parents=True)
    for name, text in documents.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("drift")
    first, second = make(root / "first", BEFORE), make(root / "second", AFTER)
    (first / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return first, second


@pytest.fixture(scope="module")
def labs(database: Database, folders: tuple[Path, Path]) -> Iterator[tuple[Lab, Lab]]:  # noqa: ARG001 - a server
    before = [files_of(folder) for folder in folders]
    with Lab.open(folders[0], CONFIG) as first, Lab.open(folders[1], CONFIG) as second:
        yield first, second
    assert [files_of(folder) for folder in folders] == before  # nothing was written to either


@pytest.fixture(scope="module")
def found(labs: tuple[Lab, Lab]) -> Drift:
    return drift(*labs)


def test_documents_are_compared_by_their_text(found: Drift, labs: tuple[Lab, Lab]) -> None:
    documents = found.documents
    assert (documents.before, documents.after) == (8, 9)
    assert documents.new == ("leaves", "loaves", "rolls")
    assert documents.gone == ("cake", "tea")
    assert documents.changed == ("jam", "pie", "salt", "soup")
    assert documents.renamed == {"tea": "leaves"}
    assert labs[0].schema != labs[1].schema


def test_every_lost_label_is_named_with_its_reason(found: Drift) -> None:
    assert found.queries == 11
    assert found.lost == (
        LostLabel("changed", "leeks", "anchor gone", "'soup' no longer has the anchor 'leeks'"),
        LostLabel(
            "renamed",
            "leaves",
            "document gone",
            "the second snapshot has no document 'tea'; 'leaves' has the text of 'tea' now",
        ),
        LostLabel("gone", "eggs", "document gone", "the second snapshot has no document 'cake'"),
        LostLabel("emptied", "plums", "document empty", "'jam' has no text in the second snapshot"),
        LostLabel("cut", "hot", "anchor cut", "'pie' still has the anchor 'bake it hot', but no chunk holds all of it"),
        LostLabel("never", "hot", "no label before", "its label finds nothing in the first snapshot ('pie')"),
        LostLabel(
            "lost",
            "eggs",
            "document empty",
            "the second snapshot has no document 'cake'; 'jam' has no text in the second snapshot",
        ),
        LostLabel("swapped", "eggs", "document gone", "the second snapshot has no document 'cake'"),
    )


def test_the_others_are_compared_and_none_scores_0_for_want_of_a_label(found: Drift) -> None:
    assert found.effect is not None
    assert found.effect.queries == 3  # sinks, stays, graded
    recall = found.effect.measures["recall@2"]
    # `loaf` has two new documents before it now. Of `graded` only `plain` is in both, and found first in both.
    assert (recall.baseline, recall.system) == (1, pytest.approx(2 / 3))
    assert found.effect.measures["ndcg@2"].baseline == 1
    assert found.narrowed == {"graded": ("cake", "rolls")}
    assert found.effect.ranks["text"].median_move == 0  # 0, 0 and 2
    assert found.effect.ranks["final"].lost == ("sinks",)


def test_what_stands_before_an_answer_that_sank_is_told(found: Drift) -> None:
    assert found.overtaken == {"sinks": Overtaken(("loaves", "rolls"), (), (), answer_changed=False)}
    document = json.loads(json.dumps(found.to_dict()))
    assert document["overtaken"]["sinks"]["new"] == ["loaves", "rolls"]
    assert document["lost"][0]["why"] == "anchor gone"


def test_changed_documents_and_others_can_overtake_too(tmp_path: Path, database: Database) -> None:  # noqa: ARG001
    # `a` sinks in its own right (it says loaf twice, then once), so that b, which is the same, and c pass it.
    first = make(tmp_path / "first", {"a": "Loaf, loaf. End.", "b": "Loaf or loaf, or.", "c": "Bread.", "d": "Loaf."})
    second = make(tmp_path / "second", {"a": "Loaf. End.", "b": "Loaf or loaf, or.", "c": "Loaf, loaf.", "d": "Loaf."})
    (first / "golden.yaml").write_text(
        "- {query_id: q1, query: loaf, kind: k, doc_id: a, anchor: end}\n", encoding="utf-8"
    )
    config = replace(CONFIG, top_k=10)
    with Lab.open(first, config) as one, Lab.open(second, config) as other:
        found = drift(one, other)
    assert found.overtaken == {"q1": Overtaken((), ("c",), ("b",), answer_changed=True)}
    assert found.effect is not None
    assert [(it.ranks_before["final"], it.ranks_after["final"]) for it in found.effect.worse] == [(1, 3)]


def test_a_split_alone_and_progress(labs: tuple[Lab, Lab]) -> None:
    heard: list[tuple[int, int]] = []
    found = drift(*labs, split="dev", progress=lambda *now: heard.append(now))
    assert (found.queries, found.lost) == (1, ())
    assert heard == [(0, 2), (1, 2), (1, 2), (2, 2)]


def test_the_same_text_in_both_is_no_drift(labs: tuple[Lab, Lab], tmp_path: Path) -> None:
    first, _ = labs
    copy = shutil.copytree(first.corpus, tmp_path / "copy")
    with Lab.open(copy, CONFIG) as second:
        found = drift(first, second)
    assert (found.documents.new, found.documents.gone, found.documents.changed) == ((), (), ())
    assert [one.why for one in found.lost] == ["no label before"]
    assert found.effect is not None
    assert found.effect.moved == ()
    assert {one.difference for one in found.effect.measures.values()} == {0}
    # No document but those of the first counts, and a label of a document that neither has is left out of both.
    assert found.narrowed == {"graded": ("rolls",), "swapped": ("rolls",)}


def test_what_cannot_be_compared_is_refused(labs: tuple[Lab, Lab]) -> None:
    first, second = labs
    with pytest.raises(InputError, match="does not drift from itself"):
        drift(first, first)
    with pytest.raises(InputError, match=r"golden\.yaml: no golden queries"):
        drift(second, first)
    with Lab.open(second.corpus, replace(CONFIG, top_k=5)) as other, pytest.raises(InputError, match="different"):
        drift(first, other)


def test_faults_of_the_golden_set_are_told(labs: tuple[Lab, Lab], tmp_path: Path) -> None:
    folder = make(tmp_path / "faulty", {"a": "Loaf."})
    (folder / "golden.yaml").write_text("- {query_id: 1}\n", encoding="utf-8")
    with Lab.open(folder, CONFIG) as faulty, pytest.raises(FaultyInput):
        drift(faulty, labs[1])
