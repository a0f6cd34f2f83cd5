"""`retrieval-lab search` and `trace`: what people and programs get, and what bad input gets."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.cli_text import stdout
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.parse_view import ParseView
from retrieval_lab.trace import Trace
from tests.core.tiny_models import cross_encoder_folder

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _server(database: Database) -> None:
    """Keeps the server up between commands."""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three one-chunk documents, one of them with what a terminal must not obey, and one golden query."""
    docs = tmp_path / "docs"
    docs.mkdir()
    texts = {"bread": "Bake the loaf.", "soup": "Boil the leeks.", "tea": "Steep [bold]the\x1b[31m leaves.\x07"}
    for name, text in texts.items():
        (docs / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    golden = "- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}\n"
    (tmp_path / "golden.yaml").write_text(golden, encoding="utf-8")
    return tmp_path


def document(capsys: Capture) -> Any:
    """The one JSON document on stdout."""
    return json.loads(capsys.readouterr().out)


def test_search_prints_the_passages_best_first(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["search", "boil leeks", "--corpus", str(corpus), "--k", "1"]) == 0
    head, snippet = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "1"
    assert head.split()[2:] == ["soup#000", "soup"]
    assert snippet.strip() == "# soup  Boil the leeks."


def test_search_as_json_has_each_passage_with_its_ranks(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["search", "boil leeks -tea", "--corpus", str(corpus), "--json"]) == 0
    found = document(capsys)
    first = found["results"][0]
    assert first["chunk_id"] == "soup#000"
    assert first["text"] == "# soup\n\nBoil the leeks."
    assert first["ranks"] == {"vector": 1, "text": 1}
    assert found["notes"] == ["text excluded: 'tea'"]


def test_what_a_passage_holds_cannot_steer_the_terminal(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["search", "steep leaves \x1b]0;x\x07", "--corpus", str(corpus)]) == 0
    assert cli.main(["trace", "steep leaves \x1b]0;x\x07", "--corpus", str(corpus)]) == 0
    printed = capsys.readouterr()
    assert "[bold]the" in printed.out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", printed.out + printed.err)


def test_a_question_that_finds_nothing_says_so(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["search", "!!!", "--corpus", str(corpus)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "note: nothing was found" in printed.err


def test_trace_as_json_is_a_trace(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["trace", "--golden", "q1", "--corpus", str(corpus), "--json"]) == 0
    found = document(capsys)
    made = Trace.from_dict(found)
    assert made.relevant == ("bread#000",)
    assert made.golden is not None
    assert found["places"]["bread#000"]["final"]["rank"] == 1


def test_trace_shows_how_the_query_was_read_each_stage_and_the_wanted_passage(capsys: Capture) -> None:
    assert cli.main(["trace", "--golden", "q08"]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["stop", "words", "how", "does"] in printed
    assert any(words[:4] == ["vector", "50", "of", "50"] and words[-2:] == ["on", "chunks"] for words in printed)
    assert any(words[:2] == ["reranked", "14"] for words in printed)
    assert ["final", "–", "beyond", "the", "first", "10"] in printed
    assert sum(words.count("●") for words in printed) == 3


def test_any_passage_can_be_followed(capsys: Capture) -> None:
    arguments = ["trace", "git commit -m the message", "--chunk", "hybrid-search#003", "--json"]
    assert cli.main(arguments) == 0
    places = document(capsys)["places"]["hybrid-search#003"]
    assert places["vector"]["rank"] > 50
    assert not places["vector"]["listed"]
    assert places["text"] == {"rank": None, "score": None, "listed": False, "reason": "no word in common"}


def test_the_journey_of_the_wanted_passage_comes_with_the_trace(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["trace", "--golden", "q1", "--corpus", str(corpus), "--json"]) == 0
    found = document(capsys)
    journey = Journey.from_dict(found["journey"])
    assert (journey.chunk_id, journey.lost_at, journey.final_rank) == ("bread#000", None, 1)
    assert "parse" not in found
    assert cli.main(["trace", "the loaf", "--corpus", str(corpus), "--json"]) == 0
    assert document(capsys)["journey"] is None
    assert cli.main(["trace", "the loaf", "--chunk", "soup#000", "--corpus", str(corpus), "--json"]) == 0
    assert document(capsys)["journey"]["chunk_id"] == "soup#000"


def test_the_journey_is_printed_as_lines_that_no_width_cuts(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = {}
    for width in ("40", "200"):
        monkeypatch.setenv("COLUMNS", width)
        assert cli.main(["trace", "--golden", "q08"]) == 0
        lines = capsys.readouterr().out.splitlines()
        printed[width] = lines[next(row for row, line in enumerate(lines) if line.startswith("passage ")) :]
    assert printed["40"] == printed["200"]
    assert "lost at   reranker: fused rank 1, reranked 14: beyond the first 10" in printed["40"]


def test_the_parse_is_shown_when_asked_for_and_a_dash_is_always_pointed_out(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["trace", "boil the leeks -tea", "--parse", "--corpus", str(corpus)]) == 0
    printed = capsys.readouterr()
    assert any(line.startswith("the ") and line.endswith("stop word") for line in printed.out.splitlines())
    assert "was this meant? boil the leeks tea" in printed.err
    assert cli.main(["trace", "boil the leeks -tea", "--corpus", str(corpus)]) == 0
    assert "was this meant? boil the leeks tea" in capsys.readouterr().err
    assert cli.main(["trace", "boil the leeks -tea", "--parse", "--corpus", str(corpus), "--json"]) == 0
    assert ParseView.from_dict(document(capsys)["parse"]).meant == "boil the leeks tea"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace"], "name one question"),
        (["trace", "x", "--golden", "q1"], "name one question"),
        (["trace", "--golden", "q9"], "no query 'q9' among 1; there is q1"),
        (["trace", "loaf", "--chunk", "bread#9"], "no chunk 'bread#9'"),
        (["search", "loaf", "--set", "topk=3"], "--set: topk: unknown key"),
        (["search", "loaf", "--k", "0"], "--k"),
        (["search", "loaf", "--k", "500"], "top_k is 500; expected at most 50"),
        (["search"], "query"),
        (["search", "loaf", "--config", "/no/such.yaml"], "/no/such.yaml: cannot be read"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    corpus: Path, arguments: list[str], message: str, capsys: Capture
) -> None:
    assert cli.main([*arguments, "--corpus", str(corpus)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert "Traceback" not in printed.err


def test_a_file_that_is_left_out_is_named_after_the_rest_was_done(corpus: Path, capsys: Capture) -> None:
    (corpus / "docs" / "broken.md").write_bytes(b"\xff")
    assert cli.main(["search", "loaf", "--corpus", str(corpus), "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["results"]
    assert "broken.md:1: not UTF-8" in printed.err


def test_the_settings_of_the_corpus_are_followed(corpus: Path, capsys: Capture) -> None:
    (corpus / "lab.yaml").write_text("retrievers: {text: {}}\nreranker: none\ntop_k: 2\n", encoding="utf-8")
    assert cli.main(["trace", "the loaf -leeks", "--corpus", str(corpus), "--json"]) == 0
    found = document(capsys)
    assert list(found["lists"]) == ["text"]
    assert found["config"]["mmr_lambda"] is None
    assert cli.main(["trace", "x", "--corpus", str(corpus), "--set", "retrievers.text.weight=0"]) == 2
    assert "all of weight 0" in capsys.readouterr().err


def test_index_says_what_it_did(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["index", str(corpus)]) == 0
    first = capsys.readouterr()
    assert first.out.startswith(f"{corpus}: 3 documents indexed, 0 unchanged, 0 removed; 3 chunks in schema lab_")
    assert first.err == ""
    (corpus / "docs" / "tea.md").unlink()
    assert cli.main(["index", str(corpus), "--json"]) == 0
    found = document(capsys)
    assert (found["indexed"], found["unchanged"], found["removed"], found["chunks"]) == ([], 2, ["tea"], 2)


def test_config_show_tells_where_each_value_comes_from(corpus: Path, capsys: Capture) -> None:
    arguments = ["config", "show", str(corpus), "--set", "fusion.k=10", "--json"]
    assert cli.main(arguments) == 0
    without = document(capsys)
    assert (without["exists"], without["path"]) == (False, str(corpus / "lab.yaml"))
    (corpus / "lab.yaml").write_text("\ntop_k: 3\n", encoding="utf-8")
    assert cli.main(arguments) == 0
    found = document(capsys)
    assert found["exists"]
    assert (found["config"]["top_k"], found["origins"]["top_k"]) == (3, f"{corpus / 'lab.yaml'}:2")
    assert (found["config"]["fusion"]["k"], found["origins"]["fusion.k"]) == (10, "--set")
    assert found["origins"]["reranker.kind"] == "default"


def test_what_config_show_prints_is_a_lab_yaml(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["config", "show", str(corpus), "--set", "retrievers.text.operators=false"]) == 0
    (corpus / "lab.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert cli.main(["config", "show", str(corpus), "--json"]) == 0
    assert document(capsys)["config"]["retrievers"]["text"]["operators"] is False


def completed(*words: str) -> list[str]:
    """What the shell offers for the last word."""
    script = "import sys; from retrieval_lab import cli; sys.exit(cli.main())"
    environment = {
        "_RETRIEVAL_LAB_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("retrieval-lab", *words)),
        "COMP_CWORD": str(len(words)),
        "PYTHONPATH": ":".join(sys.path),
        "PATH": "",
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=30)
    return done.stdout.split()


def test_the_shell_completes_commands_settings_and_golden_queries() -> None:
    assert completed("tra") == ["trace", "train-reranker"]
    assert completed("trace", "--set", "retrievers.text.") == [
        f"retrievers.text.{key}=" for key in ("kind", "n", "weight", "operators")
    ]
    assert completed("trace", "--golden", "q4") == [f"q4{digit}" for digit in range(9)]


def test_a_standard_output_that_is_closed_is_no_reason_to_fail() -> None:
    script = "import sys; from retrieval_lab import cli; sys.exit(cli.main(['--version']))"
    done = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "{script}" >&-'], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_cut_in_a_pipe_and_a_terminal_of_no_width_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert stdout().width == 200
    for columns, width in (("0", 200), ("wide", 200), ("100", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        assert stdout().width == width
    capsys.readouterr()


# --- models --------------------------------------------------------------------------------------------------------


def test_a_cross_encoders_logit_stands_beside_its_probability(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = cross_encoder_folder(tmp_path / "model")
    arguments = ["search", "boil leeks", "--corpus", str(corpus), "--k", "1", "--reranker", str(folder)]
    assert cli.main([*arguments, "--json"]) == 0
    (found,) = document(capsys)["results"]
    assert found["probability"] == pytest.approx(1 / (1 + math.exp(-found["score"])))
    assert cli.main(arguments) == 0
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head[:3] == ["1", f"{found['score']:.3f}", f"{found['probability']:.0%}"]
    assert (
        cli.main(["trace", "boil leeks", "--corpus", str(corpus), "--chunk", "soup#000", "--reranker", str(folder)])
        == 0
    )
    assert f"score {found['score']:.4f}, probability {found['probability']:.3f}" in capsys.readouterr().out
