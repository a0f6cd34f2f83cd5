"""`retrieval-lab compare`: what it prints, its JSON document, and what runs that do not compare get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from retrieval_lab import cli
from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals.kept import resolve_run
from retrieval_lab.evals.runs import Run
from retrieval_lab.settings import NoReranker
from tests.core.evals.made import made, ranked, record, undefined

Capture = pytest.CaptureFixture[str]

PLAIN = PipelineConfig(top_k=2, reranker=NoReranker(), mmr_lambda=None)


def keep(corpus: Path, *runs: Run) -> None:
    for one in runs:
        one.save(resolve_run(one.name, corpus))


def compare(capsys: Capture, corpus: Path, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["compare", *arguments, "--corpus", str(corpus)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, corpus: Path, *arguments: str) -> dict[str, Any]:
    code, out, _ = compare(capsys, corpus, *arguments, "--json")
    assert code == 0
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_it_prints_differences_carriers_settings_and_moves(tmp_path: Path, capsys: Capture) -> None:
    queries = [record("q1", 2, seconds=0.002), record("q2", None), record("q3", 1), undefined("q4"), record("q5", 1)]
    after = [record("q1", 1, seconds=0.004), record("q2", 2), record("q3", None), undefined("q4"), record("q5", 1)]
    keep(tmp_path, made("a", queries, PLAIN), made("b", after))
    code, out, err = compare(capsys, tmp_path, "a", "b")
    assert (code, err) == (0, "")
    assert [line.rstrip() for line in out.splitlines()] == [
        "A  a  2026-02-03T04:05:06+00:00  corpus kitchen, k 2",
        "B  b  2026-02-03T04:05:06+00:00  corpus kitchen, k 2",
        "",
        "4 queries; B minus A with its 95% paired bootstrap interval;",
        "least is the smallest difference that so many queries could have shown",
        "not counted, no relevant chunk in A or in B: q4",
        "",
        "                      A      B     B-A     interval       p  win/tie/loss  least",
        # The differences of recall are 0, 1, -1, 0: mean 0, deviation sqrt(2/3), so 2.801585 x 0.8165 / 2.
        "recall@2          0.750  0.750  +0.000  -.750…+.750  1.0000         1/2/1  1.144",
        "precision@2       0.375  0.375  +0.000  -.375…+.375  1.0000         1/2/1  0.572",
        "hit@2             0.750  0.750  +0.000  -.750…+.750  1.0000         1/2/1  1.144",
        # 1/2, 1/2, -1, 0: of the eight sums of the three, all are as far from 0
        "mrr@2             0.625  0.625  +0.000  -.625…+.500  1.0000         2/1/1  0.991",
        "ndcg@2            0.658  0.658  +0.000  -.658…+.500  1.0000         2/1/1  1.002",
        "fused recall@50   1.000  1.000  +0.000  +.000…+.000  1.0000         0/4/0      –",
        "vector recall@50  1.000  1.000  +0.000  +.000…+.000  1.0000         0/4/0      –",
        "text recall@50    0.000  0.000  +0.000  +.000…+.000  1.0000         0/4/0      –",
        "",
        "Carried by",
        "  recall@2          q2 +1.000,  q3 -1.000",
        "  precision@2       q2 +0.500,  q3 -0.500",
        "  hit@2             q2 +1.000,  q3 -1.000",
        "  mrr@2             q3 -1.000,  q1 +0.500,  q2 +0.500",
        "  ndcg@2            q3 -1.000,  q2 +0.631,  q1 +0.369",
        "",
        "Configuration, A → B",
        "  reranker.kind: none → lexical",
        "  reranker.k1: – → 1.2",
        "  reranker.b: – → 0.75",
        "  mmr_lambda: – → 0.7",
        "",
        "Moved: 3 queries, 1 gained and 1 lost",
        "rank of the first relevant chunk in the first 2, A → B",
        "–  →  2  q2  known  what is q2?",
        "1  →  –  q3  known  what is q3?",
        "2  →  1  q1  known  what is q1?",
        "",
        "median latency a query: 10.0 ms → 10.0 ms",
    ]


def test_identical_runs_have_p_1_an_interval_of_0_and_only_ties(tmp_path: Path, capsys: Capture) -> None:
    keep(tmp_path, ranked("a", 1, None, 2))
    found = document(capsys, tmp_path, "a", "a")
    for one in found["measures"].values():
        assert (one["p"], one["difference"], one["difference_interval"]) == (1, 0, {"low": 0, "high": 0})
        assert one["counts"] == {"wins": 0, "ties": 3, "losses": 0}
    assert (found["moves"], found["changes"], found["warnings"]) == ([], [], [])
    _, out, _ = compare(capsys, tmp_path, "a", "a")
    assert "Configuration, A → B\n  the same\n" in out
    assert "Moved: 0 queries, 0 gained and 0 lost\n" in out


def test_the_json_document_is_alone_on_stdout_and_has_everything(tmp_path: Path, capsys: Capture) -> None:
    keep(tmp_path, ranked("a", *[None] * 15), ranked("b", *[1] * 15, documents_hash="e" * 64))
    code, out, err = compare(capsys, tmp_path, "a", "b", "--json")
    found = json.loads(out)
    assert code == 0
    assert err.startswith("warning: the runs searched other documents (3 documents with the hash dddddddddddd")
    assert found["baseline"] == {"name": "a", "created": "2026-02-03T04:05:06+00:00", "corpus": "kitchen", "k": 2}
    assert found["system"]["name"] == "b"
    assert found["measures"]["mrr@2"]["p"] == pytest.approx(1 / 10_001, abs=3 / 10_001)  # and never 0
    assert found["measures"]["mrr@2"]["p"] > 0
    assert found["measures"]["mrr@2"]["difference_interval"] == {"low": 1, "high": 1}
    assert [carrier["query_id"] for carrier in found["measures"]["mrr@2"]["carriers"]] == ["q1", "q2", "q3"]
    assert len(found["moves"]) == 15
    assert len(found["warnings"]) == 1


def test_more_than_two_runs_are_corrected_for_their_number(tmp_path: Path, capsys: Capture) -> None:
    keep(
        tmp_path, ranked("a", *[None] * 8), ranked("b", *[1] * 8), ranked("c", *[1] * 7, None), ranked("d", *[None] * 8)
    )
    found = document(capsys, tmp_path, "a", "b", "c", "d")
    assert found["baseline"]["name"] == "a"
    assert [one["system"]["name"] for one in found["systems"]] == ["b", "c", "d"]
    p = [one["measures"]["mrr@2"]["p"] for one in found["systems"]]
    assert p == [2 / 2**8, 2 / 2**7, 1]  # all signs alike, either way; one tie
    corrected = [one["measures"]["mrr@2"]["p_holm"] for one in found["systems"]]
    assert corrected == pytest.approx([3 * p[0], 2 * p[1], 1])
    code, out, err = compare(capsys, tmp_path, "a", "b", "c", "d")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["mrr@2", "A", "0.000"] in rows
    assert ["B", "1.000", "+1.000", "+1.00…+1.00", "0.0078", "0.0234", "8/0/0", "–"] in rows
    assert ["D", "0.000", "+0.000", "+.000…+.000", "1.0000", "1.0000", "0/8/0", "–"] in rows
    assert ["C", "q1", "+1.000,", "q2", "+1.000,", "q3", "+1.000"] in rows


def test_the_plot_of_a_difference(tmp_path: Path, capsys: Capture) -> None:
    keep(tmp_path, ranked("a", 1, None, 2, 2), ranked("b", 1, 1, 1, None))
    code, out, _ = compare(capsys, tmp_path, "a", "b", "--plot")
    assert code == 0
    assert "ndcg@2, B minus A" in out
    assert "97.5%" in out
    assert "mrr@2, B minus A" in compare(capsys, tmp_path, "a", "b", "b", "--measure", "mrr@2")[1]


def test_a_plot_that_cannot_be(tmp_path: Path, capsys: Capture) -> None:
    keep(tmp_path, ranked("a", 1), ranked("b", 2))
    code, _, err = compare(capsys, tmp_path, "a", "b", "--measure", "map")
    assert code == 2
    assert "'map' is not compared here; these are: recall@2" in err
    assert compare(capsys, tmp_path, "a", "b", "--plot", "--json")[0] == 2


def test_one_query_has_no_interval(tmp_path: Path, capsys: Capture) -> None:
    keep(tmp_path, ranked("a", 2), ranked("b", 1))
    assert document(capsys, tmp_path, "a", "b")["measures"]["mrr@2"]["difference_interval"] is None
    _, out, _ = compare(capsys, tmp_path, "a", "b")
    row = next(line.split() for line in out.splitlines() if line.startswith("mrr@2"))
    assert row == ["mrr@2", "0.500", "1.000", "+0.500", "–", "1.0000", "1/0/0", "–"]


@pytest.mark.parametrize("columns", [80, 120])
def test_long_names_and_many_moves_fit_the_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ids = [f"a-long-id-of-a-question-{number}" for number in range(1200)]
    before = [replace(record(name, None), query="長い質問です " * 20) for name in ids]
    after = [replace(record(name, 1 + number % 2), query="長い質問です " * 20) for number, name in enumerate(ids)]
    keep(tmp_path, made("a", before), made("b", after))
    code, out, _ = compare(capsys, tmp_path, "a", "b")
    assert code == 0
    assert max(cell_len(line) for line in out.splitlines()) <= columns
    assert "1200/0/0" in out
    assert "and 1180 more; --json has all" in out


def test_what_a_run_holds_cannot_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    bad = "\x1b[31m[/b]"
    one = replace(record("q1", 1), query_id=bad, query=bad, kind=bad)
    keep(tmp_path, made("a", [replace(one, ranks={**one.ranks, "final": 2})], folder=bad), made("b", [one], folder=bad))
    code, out, _ = compare(capsys, tmp_path, "a", "b")
    assert (code, "\x1b" in out) == (0, False)
    assert r"\u001b[31m[/b]" in out


def test_paths_name_runs_too(tmp_path: Path, capsys: Capture) -> None:
    keep(tmp_path, ranked("a", 1))
    ranked("b", 2).save(tmp_path / "b.json")
    assert compare(capsys, tmp_path, "a", str(tmp_path / "b.json"))[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "b.json: no such run; in that folder are a"),
        ('{"format": 1, ', "b.json:1: not JSON, or only the beginning of it"),
        (json.dumps({"format": 2}), "b.json: this is no run of format 1: its format is 2"),
        (
            json.dumps(ranked("b", 1, folder="barn", golden_hash="b" * 64).to_dict()),
            "the baseline 'a' of corpus 'kitchen' is of another golden set",
        ),
        (json.dumps(replace(ranked("b", 1), config=PipelineConfig(top_k=3)).to_dict()), "broken: the measures of 'q1'"),
    ],
)
def test_what_does_not_compare_is_exit_code_2_and_one_line(
    tmp_path: Path, capsys: Capture, text: str | None, message: str
) -> None:
    keep(tmp_path, ranked("a", 1))
    if text is not None:
        (tmp_path / "runs" / "b.json").write_text(text, encoding="utf-8")
    for more in ((), ("--json",)):
        code, out, err = compare(capsys, tmp_path, "a", "b", *more)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert message in err


def test_it_needs_no_server_and_works_in_a_pipe(tmp_path: Path) -> None:
    keep(tmp_path, ranked("a", 1, 2), ranked("b", 2, 2))
    environment = {**os.environ, "RETRIEVAL_LAB_DSN": "host=nowhere.invalid"}
    command = [sys.executable, "-W", "error", "-m", "retrieval_lab", "compare", "a", "b", "--corpus", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("A  a")
    assert "\x1b" not in done.stdout


def test_help_has_an_example(tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = compare(capsys, tmp_path, "--help")
    assert code == 0
    assert "retrieval-lab compare before after" in out
