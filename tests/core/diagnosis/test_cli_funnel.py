"""`funnel`, `diagnose`, `analysis init --propose` and `trace --bundle` on the command line: text, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.analysis_file import parse
from retrieval_lab.diagnosis.bundle import read_bundle
from retrieval_lab.diagnosis.funnel import Funnel
from tests.core.diagnosis.losing import LOST, make_corpus

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _narrow_and_served(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - keeps the server up
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("commands") / "fruit")


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main([*map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


# --- funnel --------------------------------------------------------------------------------------------------------


def test_the_funnel_names_what_each_stage_loses(corpus: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "funnel", corpus)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "final      1 of 10 are in the final list of 2: 10%" in out
    for stage, ids in LOST.items():
        assert [line for line in out.partition("lost\n")[2].splitlines() if line.startswith(stage)] == (
            [f"{stage:<9} {' '.join(ids)}"] if ids else []
        )
    assert "kind" not in out


def test_kinds_have_a_row_each(corpus: Path, capsys: Capture) -> None:
    _, out, _ = run(capsys, "funnel", corpus, "--by-kind")
    table = out.splitlines()[-3:]
    assert table[0].split() == ["kind", "queries", "chunking", "pool", "fusion", "reranker", "mmr", "final"]
    assert table[1].split()[:8] == ["one", "5", "·", "·", "2", "1", "1", "1"]
    assert table[2].split()[:8] == ["two", "5", "2", "3", "·", "·", "·", "0"]


def test_the_funnel_as_json_is_a_funnel(corpus: Path, capsys: Capture) -> None:
    found = Funnel.from_dict(document(capsys, "funnel", corpus))
    assert {step.stage: step.query_ids for step in found.all.steps} == LOST
    # A setting for this call: the whole union goes on.
    wider = Funnel.from_dict(document(capsys, "funnel", corpus, "--set", "fusion.n=9"))
    assert wider.all.step("fusion").query_ids == ()


# --- diagnose ------------------------------------------------------------------------------------------------------


def test_each_miss_has_its_kinds_and_below_them_the_evidence(corpus: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "diagnose", corpus)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "8 misses of 10 golden queries; proposed, not judged:"
    assert lines[2].split() == ["query_id", "failure", "fix"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:] if not line.startswith(" ")}
    assert list(rows) == ["apple", "pear", "plum", "fig", "gap", "next", "head", "cut"]
    assert rows["pear"] == ["reranker-demotion", "smaller-chunks"]
    assert "    lacks quinc, which its heading path has; the heading path before the text" in lines
    assert max(map(len, lines)) <= 80


def test_one_query_can_be_diagnosed_alone(corpus: Path, capsys: Capture) -> None:
    _, out, _ = run(capsys, "diagnose", corpus, "--golden", "head")
    assert out.splitlines()[3].split() == ["head", "chunk-boundary", "contextual-chunk-headers"]
    _, out, _ = run(capsys, "diagnose", corpus, "--golden", "first")
    assert out == "nothing to propose for first: its passage is found, or its anchor is not in the document\n"
    _, out, _ = run(capsys, "diagnose", corpus, "--golden", "pear", "--rescues")
    assert out.splitlines()[3].split() == ["pear", "reranker-demotion", "hybrid-weights"]
    code, out, err = run(capsys, "diagnose", corpus, "--golden", "nobody")
    assert (code, out) == (2, "")
    assert "no query 'nobody'" in err


def test_proposals_as_json(corpus: Path, capsys: Capture) -> None:
    found = document(capsys, "diagnose", corpus)
    assert (found["corpus"], found["queries"], len(found["proposals"])) == ("fruit", 10, 8)
    assert set(found["proposals"][0]) == {"query_id", "failure", "fix", "evidence"}
    assert document(capsys, "diagnose", corpus, "--golden", "first")["proposals"] == []


# --- analysis init --propose ---------------------------------------------------------------------------------------


def test_proposals_go_into_notes_and_leave_the_judgment_to_do(tmp_path: Path, capsys: Capture) -> None:
    folder = make_corpus(tmp_path / "fruit")
    file = folder / "RETRIEVAL_ANALYSIS.md"
    mine = (
        "| query_id | failure | fix | notes |\n|---|---|---|---|\n"
        "| pear | ranking | todo |  |\n| plum | todo | todo | mine |\n| fig | todo | todo |  |\n"
    )
    file.write_text(mine, encoding="utf-8")
    found = document(capsys, "analysis", "init", folder, "--propose")
    assert found["added"] == ["apple", "gap", "next", "head"]
    assert found["proposed"] == ["apple", "fig", "gap", "next", "head"]
    rows = parse(file.read_text(encoding="utf-8")).by_query()
    assert (rows["pear"].failure, rows["pear"].notes, rows["plum"].notes) == ("ranking", "", "mine")
    for query_id in found["proposed"]:
        assert (rows[query_id].failure, rows[query_id].fix) == ("todo", "todo")
        assert rows[query_id].notes.startswith("proposed: ")
    assert rows["gap"].notes.startswith("proposed: vocabulary-gap, query-rewrite: ")
    before = file.read_bytes()
    code, out, _ = run(capsys, "analysis", "init", folder, "--propose")
    assert (code, file.read_bytes()) == (0, before)
    assert "0 rows added, 0 proposals noted" in out
    # Without the option nothing is proposed.
    file.unlink()
    assert document(capsys, "analysis", "init", folder)["proposed"] == []
    assert "proposed" not in file.read_text(encoding="utf-8")


# --- trace --bundle ------------------------------------------------------------------------------------------------


def test_a_bundle_is_written_and_said(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "fig.json"
    code, out, err = run(capsys, "trace", "--golden", "fig", "--corpus", corpus, "--bundle", file)
    assert (code, err) == (0, "")
    assert out.startswith(f"{file}: fig (lost at fusion), ")
    found = read_bundle(file)
    assert found.rescues is not None
    said = document(capsys, "trace", "--golden", "fig", "--corpus", corpus, "--bundle", file, "--no-rescues")
    assert said == {"file": str(file), "query_id": "fig", "lost_at": "fusion", "bytes": file.stat().st_size}
    assert read_bundle(file).rescues is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fig", "--bundle", "x.json"), "a bundle follows one passage"),
        (("--golden", "fig", "--no-rescues"), "name its file with --bundle FILE"),
        (("--golden", "fig", "--bundle", "."), "is a folder; name a file"),
    ],
)
def test_what_cannot_be_bundled_is_refused(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "trace", *arguments, "--corpus", corpus)
    assert (code, out) == (2, "")
    assert message in err
    assert list(tmp_path.iterdir()) == []
