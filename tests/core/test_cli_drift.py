"""`retrieval-lab robustness` and `drift`: what they print, their JSON documents and their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from retrieval_lab import cli
from retrieval_lab.database import Database
from tests.core.evals.made import files_of
from tests.core.evals.test_runs import make_corpus

Capture = pytest.CaptureFixture[str]

GOLDEN = """\
- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf, split: dev}
- {query_id: q2, query: "who boils the leeks?", kind: other, doc_id: soup, anchor: leeks}
- {query_id: q3, query: make it steep, kind: other, doc_id: tea, anchor: steep}
"""


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    """Three documents of one chunk, each found by its query."""
    folder = make_corpus(tmp_path / "kitchen")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def ran(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    code, out, err = ran(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


# --- robustness ----------------------------------------------------------------------------------------------------


def test_each_perturbation_has_its_tables(corpus: Path, capsys: Capture) -> None:
    code, out, err = ran(capsys, "robustness", corpus)
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert [line for line in lines if line.endswith("changed")] == [
        "typos: 3 of 3 queries changed",
        "synonyms: 1 of 3 queries changed",
        "reversed: 3 of 3 queries changed",
    ]
    assert lines.count("the best answer of each query") == 3
    header = next(line for line in lines if "win/tie/loss" in line)
    assert header.split() == ["before", "after", "change", "interval", "p", "win/tie/loss", "least"]
    reversed_ = lines[lines.index("reversed: 3 of 3 queries changed") :]
    recall = next(line for line in reversed_ if line.startswith("recall@10")).split()
    assert recall == ["recall@10", "1.000", "1.000", "+0.000", "+.000…+.000", "1.0000", "0/3/0", "–"]
    assert next(line for line in reversed_ if line.startswith("final")).split() == ["final", "3", "3", "0", "0", "+0"]
    assert "lost most" not in "".join(reversed_)


def test_the_configuration_kinds_and_split_are_chosen(corpus: Path, capsys: Capture) -> None:
    options = ("--kind", "reversed", "--kind", "typos", "--split", "dev", "--reranker", "none", "--set", "top_k=2")
    found = document(capsys, "robustness", corpus, *options)
    assert (list(found["kinds"]), found["queries"]) == (["reversed", "typos"], 1)
    assert found["config"]["reranker"] == {"kind": "none"}
    assert "recall@2" in found["kinds"]["reversed"]["effect"]["measures"]
    assert found["kinds"]["reversed"]["queries"] == {"q1": "loaf the"}


def test_the_changed_queries_can_be_shown_without_a_server(
    corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVAL_LAB_DSN", "host=/nowhere")
    code, out, err = ran(capsys, "robustness", corpus, "--show", "--kind", "synonyms", "--kind", "reversed")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "synonyms: 1 query of 3",
        "  q3  create it steep",
        "",
        "reversed: 3 queries of 3",
        "  q1  loaf the",
        "  q2  leeks the boils who?",
        "  q3  steep it make",
    ]
    assert document(capsys, "robustness", corpus, "--show", "--kind", "synonyms") == {
        "synonyms": {"queries": {"q3": "create it steep"}, "unchanged": ["q1", "q2"]}
    }


def test_queries_of_a_file_cannot_steer_the_terminal(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text(
        '- {query_id: q1, query: "make \\e[31m[red]", kind: k, doc_id: bread, anchor: loaf}\n', encoding="utf-8"
    )
    for options in (("--show",), ()):
        _, out, _ = ran(capsys, "robustness", corpus, "--kind", "synonyms", *options)
        assert "\x1b" not in out
    assert "create" in ran(capsys, "robustness", corpus, "--show")[1]


def test_labels_that_find_nothing_are_named_with_code_2(corpus: Path, capsys: Capture) -> None:
    with (corpus / "golden.yaml").open("a", encoding="utf-8") as golden:
        golden.write("- {query_id: q4, query: make milk, kind: k, doc_id: tea, anchor: milk}\n")
        golden.write("- {query_id: q5, query: make cheese, kind: k, relevant: []}\n")
    code, out, err = ran(capsys, "robustness", corpus, "--kind", "synonyms")
    assert code == 2
    assert "not counted, no chunk is relevant: q4, q5" in out
    assert "q4: no chunk of 'tea' holds the anchor 'milk'" in err
    assert "q5" not in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kind", "shouting"), "--kind 'shouting': expected typos, synonyms, reversed"),
        (("--show", "--reranker", "none"), "--show asks nobody"),
        (("--split", "test"), "no query of the split 'test'"),
        (("--show", "--split", "test"), "no query of the split 'test'"),
    ],
)
def test_what_cannot_be_is_refused(corpus: Path, capsys: Capture, options: tuple[str, ...], message: str) -> None:
    code, _, err = ran(capsys, "robustness", corpus, *options)
    assert code == 2
    assert message in err


def test_the_figures_of_the_bundled_corpus_are_those_of_the_readme(capsys: Capture) -> None:
    found = document(capsys, "robustness")["kinds"]
    figures = {
        kind: [
            one["effect"]["queries"],
            *(
                round(one["effect"]["measures"][name][side], 3)
                for name in ("recall@10", "mrr@10")
                for side in ("baseline", "system")
            ),
        ]
        for kind, one in found.items()
    }
    assert figures == {
        "typos": [48, 0.729, 0.5, 0.651, 0.412],
        "synonyms": [29, 0.621, 0.621, 0.514, 0.546],
        "reversed": [44, 0.705, 0.705, 0.619, 0.616],
    }


def test_the_drift_of_the_readme_is_what_the_command_finds(
    capsys: Capture,
    corpus_dir: Path,
    tmp_path: Path,
    database: Database,  # noqa: ARG001 - keeps the server up
) -> None:
    before = shutil.copytree(corpus_dir, tmp_path / "before")
    for path in (before / "docs").glob("interview-*.md"):
        path.unlink()
    code, out, _ = ran(capsys, "drift", before, "--against", corpus_dir)
    readme = (corpus_dir.parents[1] / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("--against fixtures/corpus\n...\n")[2].partition("```")[0].splitlines()
    assert code == 0
    assert len(shown) == 5
    assert [line.rstrip() for line in out.splitlines()][-5:] == shown


# --- drift ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def second(corpus: Path, tmp_path: Path) -> Path:
    """The corpus later: soup is gone, tea has other words, and the loaf has a new document with more of it."""
    folder = shutil.copytree(corpus, tmp_path / "later")
    (folder / "golden.yaml").unlink()
    (folder / "docs" / "soup.md").unlink()
    (folder / "docs" / "tea.md").write_text("# tea\n\nPour it.\n", encoding="utf-8")
    (folder / "docs" / "loaves.md").write_text("# the loaf\n\nThe loaf, the loaf.\n", encoding="utf-8")
    return folder


def test_drift_tells_documents_lost_labels_and_answers_that_sank(corpus: Path, second: Path, capsys: Capture) -> None:
    before = files_of(corpus), files_of(second)
    code, out, err = ran(capsys, "drift", corpus, "--against", second)
    assert (code, err) == (0, "")
    assert (files_of(corpus), files_of(second)) == before
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[:8] == [
        f"before  {corpus}  3 documents",
        f"after   {second}  3 documents",
        "   1 new: loaves",
        "   1 gone: soup",
        "   1 changed: tea",
        "",
        "3 golden queries with an answer: 1 compared, 2 not",
        "q2  document gone  the second snapshot has no document 'soup'",
    ]
    assert lines[8] == "q3  anchor gone    'tea' no longer has the anchor 'steep'"
    assert next(line for line in lines if line.startswith("mrr@10")).split() == [
        *("mrr@10", "1.000", "0.500", "-0.500", "–", "1.0000", "0/0/1", "–")
    ]
    assert "answers that sank: 1, 1 of them with a new document before them" in lines
    assert lines[-1].split() == ["1", "→", "2", "q1", "1", "new", "the", "loaf"]


def test_drift_as_json_and_in_a_narrow_terminal(
    corpus: Path, second: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = document(capsys, "drift", corpus, "--against", second, "--split", "dev", "--reranker", "none")
    assert (found["corpus"], found["against"]) == (str(corpus), str(second))
    assert (found["queries"], found["lost"]) == (1, [])
    assert found["documents"]["new"] == ["loaves"]
    assert found["config"]["reranker"] == {"kind": "none"}
    assert found["overtaken"]["q1"]["new"] == ["loaves"]
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = ran(capsys, "drift", corpus, "--against", second)
    tables = out[out.index("mrr@10") :]
    assert max(cell_len(line.rstrip()) for line in tables.splitlines()) <= 80


def test_the_first_snapshots_settings_hold_for_both(corpus: Path, second: Path, capsys: Capture) -> None:
    (corpus / "lab.yaml").write_text("top_k: 3\n", encoding="utf-8")
    (second / "lab.yaml").write_text("top_k: 4\n", encoding="utf-8")
    found = document(capsys, "drift", corpus, "--against", second)
    assert "recall@3" in found["effect"]["measures"]


def test_drift_refuses_what_is_no_second_snapshot(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    code, _, err = ran(capsys, "drift", corpus, "--against", corpus)
    assert (code, "does not drift from itself" in err) == (2, True)
    code, _, err = ran(capsys, "drift", corpus, "--against", tmp_path / "nowhere")
    assert (code, "no such folder" in err) == (2, True)
    code, _, err = ran(capsys, "drift", corpus)
    assert (code, "--against" in err) == (2, True)


def test_files_that_were_left_out_end_with_code_2(corpus: Path, second: Path, capsys: Capture) -> None:
    (second / "docs" / "bad.md").write_bytes(b"\xff\xfe")
    code, out, err = ran(capsys, "drift", corpus, "--against", second)
    assert code == 2
    assert "1 compared" in out
    assert "bad.md" in err
