"""Splits: shares by kind, the same deal every time, and the hash of what is held out in every report."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import Lab, cli
from retrieval_lab.database import Database
from retrieval_lab.errors import InputError
from retrieval_lab.evals.runs import Run, hash_of_golden, run
from retrieval_lab.evals.splits import stratified
from retrieval_lab.golden import load_golden
from retrieval_lab.types import GoldenQuery
from tests.core.evals.test_runs import make_corpus

Capture = pytest.CaptureFixture[str]


def queries(**kinds: int) -> list[GoldenQuery]:
    return [
        GoldenQuery(f"{kind}{number}", "x", kind, "d", "a") for kind, size in kinds.items() for number in range(size)
    ]


@pytest.mark.parametrize(
    ("kinds", "dev", "expected"),
    [
        ({"a": 10, "b": 5}, 0.4, {"a": (4, 6), "b": (2, 3)}),
        ({"a": 3, "b": 3, "c": 4}, 0.4, {"a": (1, 2), "b": (1, 2), "c": (2, 2)}),  # 1.2, 1.2, 1.6: the last seat to c
        ({"a": 1, "b": 1, "c": 1}, 0.4, {"a": (1, 0), "b": (0, 1), "c": (0, 1)}),  # 1 of 3, a tie to the first name
        ({"a": 1, "b": 99}, 0.5, {"a": (1, 0), "b": (49, 50)}),  # 0.5 and 49.5, a tie again
        ({"a": 2}, 0.01, {"a": (1, 1)}),
        ({"a": 2}, 0.99, {"a": (1, 1)}),
    ],
)
def test_each_kind_has_its_share(kinds: dict[str, int], dev: float, expected: dict[str, tuple[int, int]]) -> None:
    made = stratified(queries(**kinds), dev=dev)
    assert made.by_kind == expected
    assert made.count("dev") == sum(one for one, _ in expected.values())
    assert made.count("dev") + made.count("held-out") == sum(kinds.values())


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=2), st.floats(0.05, 0.95))
def test_no_kind_is_off_by_a_whole_query(kinds: dict[str, int], dev: float) -> None:
    made = stratified(queries(**kinds), dev=dev)
    share = made.count("dev") / sum(kinds.values())
    for kind, size in kinds.items():
        assert abs(made.by_kind[kind][0] - share * size) < 1
        assert sum(made.by_query[f"{kind}{number}"] == "dev" for number in range(size)) == made.by_kind[kind][0]


def test_the_deal_depends_on_the_seed_and_not_on_the_order() -> None:
    golden = queries(a=30, b=20)
    first = stratified(golden).by_query
    assert stratified(golden[::-1]).by_query == first
    assert list(first) == [query.query_id for query in golden]
    assert stratified(golden, seed=14).by_query != first
    # Pinned, since a list that is held out must stay held out.
    assert [key for key, split in first.items() if split == "dev"][:6] == PINNED


PINNED = ["a0", "a1", "a4", "a5", "a8", "a9"]


@pytest.mark.parametrize("dev", [0.0, 1.0, -1, 2, float("nan")])
def test_a_share_that_is_none_is_refused(dev: float) -> None:
    with pytest.raises(InputError, match="the share of dev is"):
        stratified(queries(a=3), dev=dev)


def test_one_query_cannot_be_split() -> None:
    with pytest.raises(InputError, match="1 golden queries; expected at least 2"):
        stratified(queries(a=1))


def test_the_hash_is_of_ids_queries_and_labels_alone() -> None:
    one = GoldenQuery("q", "x", "k", "d", "a")
    assert hash_of_golden([one]) == sha256(b'["q", "x", "k", "d", "a"]\n').hexdigest()
    same = GoldenQuery("q", "x", "k", "d", "a", split="dev", fields=(("topic", "t"),))
    assert hash_of_golden([same]) == hash_of_golden([one])
    graded = [GoldenQuery("q", "x", "k", "", "", relevant=(("d", grade),)) for grade in (1, 2)]
    assert hash_of_golden(graded[:1]) == sha256(b'["q", "x", "k", "", "", [["d", 1]]]\n').hexdigest()
    assert len({hash_of_golden([query]) for query in (one, *graded)}) == 3


# --- the commands --------------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    return make_corpus(tmp_path / "kitchen")


def test_splits_are_written_once_and_again_only_by_force(corpus: Path, capsys: Capture) -> None:
    before = (corpus / "golden.yaml").read_text(encoding="utf-8")
    assert cli.main(["split", str(corpus), "--dry-run"]) == 0
    assert (corpus / "golden.yaml").read_text(encoding="utf-8") == before
    assert cli.main(["split", str(corpus)]) == 0
    golden = load_golden(corpus / "golden.yaml")
    held_out = [query for query in golden if query.split == "held-out"]
    assert sorted(query.split for query in golden) == ["dev", "held-out", "held-out"]
    assert f"the held-out list has the hash {hash_of_golden(held_out)[:12]}" in capsys.readouterr().out
    assert cli.main(["split", str(corpus)]) == 2
    assert "are in splits already (dev, held-out); --force" in capsys.readouterr().err
    assert cli.main(["split", str(corpus), "--force", "--dev", "0.7", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(document["splits"].values()) == ["dev", "dev", "held-out"]


def test_a_split_is_evaluated_alone_and_every_report_has_the_hash(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["eval", str(corpus), "--split", "dev"]) == 2
    assert "no query of the split 'dev'; `retrieval-lab split` makes dev and held-out" in capsys.readouterr().err
    splits = {"q1": "dev", "q2": "held-out", "q3": "held-out"}
    text = (corpus / "golden.yaml").read_text(encoding="utf-8")
    for query_id, split in splits.items():
        text = text.replace(f"query_id: {query_id},", f"query_id: {query_id}, split: {split},")
    (corpus / "golden.yaml").write_text(text, encoding="utf-8")
    held_out = hash_of_golden(query for query in load_golden(corpus / "golden.yaml") if query.split == "held-out")
    with Lab.open(corpus) as lab:
        made = run(lab, split="dev")
        assert [record.query_id for record in made.queries] == ["q1"]
        assert (made.corpus.split, made.corpus.queries, made.corpus.held_out) == ("dev", 1, 2)
        assert made.corpus.held_out_hash == run(lab).corpus.held_out_hash == held_out
        assert lab.evaluate(split="dev").queries == 1
        assert Run.from_dict(json.loads(json.dumps(made.to_dict()))) == made
        with pytest.raises(InputError, match="no query of the split 'test'; there is dev, held-out"):
            lab.evaluate(split="test")
    capsys.readouterr()
    assert cli.main(["eval", str(corpus), "--split", "dev"]) == 0
    out = capsys.readouterr().out
    assert "the split dev alone, 1 queries" in out
    assert f"held out are 2 queries, hash {held_out[:12]}" in out
    assert cli.main(["eval", str(corpus), "--split", "dev", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["corpus"]["held_out_hash"] == held_out
