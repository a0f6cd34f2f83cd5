"""`retrieval-lab ask` and `calibrate`: answers, refusals, prompts and records, and what bad input gets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.answer import REFUSAL
from retrieval_lab.answer_record import AnswerRecord, record_path
from retrieval_lab.claude_login import KEY_VARIABLES
from retrieval_lab.config_file import effective_config
from retrieval_lab.database import Database
from retrieval_lab.errors import InputError
from tests.core.evals.test_runs import make_corpus
from tests.core.tiny_models import nli_folder

Capture = pytest.CaptureFixture[str]

GOLDEN = "- {query_id: q1, query: how to bake a loaf, kind: known, doc_id: bread, anchor: bake the loaf}\n"


@pytest.fixture(autouse=True)
def _no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: Database) -> None:  # noqa: ARG001 - keeps it up
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nobody"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = make_corpus(tmp_path / "kitchen")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


def ask(capsys: Capture, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
    assert cli.main(["ask", *map(str, arguments)]) == code
    return tuple(capsys.readouterr())  # type: ignore[return-value]


def answer(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(capsys, *arguments, "--json")[0])
    return found


# --- answers -------------------------------------------------------------------------------------------------------


def test_without_a_login_the_sources_answer_in_their_own_sentences(capsys: Capture) -> None:
    found = answer(capsys, "who made the clock of Sankt Veit?")
    assert set(found) == {"text", "refused", "answerer", "citations", "support", "floor", "cost_usd"}
    assert (found["answerer"], found["refused"], found["cost_usd"], found["floor"]) == ("extractive", False, 0.0, 0.25)
    assert found["support"] == 1.0
    cited = sorted({int(number) for number in re.findall(r"\[(\d+)\]", found["text"])})
    assert [one["n"] for one in found["citations"]] == cited
    assert all(one["chunk_id"].startswith("the-clock-at-sankt-veit#") for one in found["citations"])
    assert all(line.endswith("]") for line in found["text"].splitlines())


def test_a_question_about_something_else_is_refused(capsys: Capture) -> None:
    found = answer(capsys, "How do I grow basil on a balcony?")
    assert (found["text"], found["refused"], found["citations"]) == (REFUSAL, True, [])
    assert found["support"] < found["floor"]
    out, _ = ask(capsys, "How do I grow basil on a balcony?")
    assert out.splitlines()[0] == REFUSAL
    assert "nobody was asked · refused · support 0.05, below the floor of 0.25" in out


def test_the_output_says_who_spoke_and_on_what(capsys: Capture) -> None:
    out, _ = ask(capsys, "who made the clock of Sankt Veit?")
    assert "answered by extractive" in out
    rows = [line for line in out.splitlines() if "  rank " in line]
    assert len(rows) >= 5
    assert all(re.search(r"\[\d\] \S+#\d{3} +rank +\d+ +score +[\d.]+ +support [\d.]+", row) for row in rows)


def test_the_floor_of_the_configuration_decides(capsys: Capture) -> None:
    question = "How do I grow basil on a balcony?"
    assert answer(capsys, question, "--set", "support_floor=0.01")["refused"] is False
    assert answer(capsys, "who made the clock?", "--set", "support_floor=1")["floor"] == 1.0


def test_a_passage_beyond_the_final_list_joins_the_sources_when_it_supports_best(capsys: Capture) -> None:
    found = json.loads(ask(capsys, "--golden", "q08", "--dry-run", "--json")[0])
    assert len(found["citations"]) == 6
    alone = json.loads(ask(capsys, "--golden", "q08", "--dry-run", "--json", "--sources", "9")[0])
    assert len(alone["citations"]) in (9, 10)


def test_sentences_without_a_citation_are_named(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrieval_lab import answering

    class Forgetful:
        name = "forgetful"

        def answer(self, made: answering.Grounds, *_: object) -> object:
            text = "It was Lott of Imst [1]. He lived in the U.S. for years. See [9] and [Source 1]."
            return answering.Answer(text, answering.cited_sentences(text, made.draft.citations).faithfulness, 0.0123)

    monkeypatch.setattr(answering, "usual_answerer", Forgetful)
    out, _ = ask(capsys, "who made the clock of Sankt Veit?")
    assert "! not cited: He lived in the U.S. for years.\n" in out
    assert "! not cited: See [9] and [Source 1].\n" in out
    assert "! no source has the number [9]\n" in out
    assert "! not read as a citation: [Source 1]\n" in out
    assert "answered by forgetful · 1 of 3 sentences cited" in out
    assert "$0.0123" in out


def test_bad_requests_are_told(capsys: Capture, corpus: Path) -> None:
    for arguments, said in (
        ([], "name one question"),
        (["why?", "--golden", "q1"], "name one question"),
        (["why?", "--record"], "give --golden ID"),
        (["--golden", "q1", "--record", "--dry-run"], "no --dry-run"),
        (["why?", "--answerer", "extractive", "--model", "x"], "--model has no effect"),
        (["why?", "--embedder", "foo"], "--embedder: 'foo' names no model; expected hash, hash:DIMS"),
        (["why?", "--reranker", "bm25"], "--reranker: 'bm25' names no model; expected none, lexical"),
    ):
        _, err = ask(capsys, *arguments, "--corpus", corpus, code=2)
        assert said in err, err


def test_claude_without_a_login_is_missing_something(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrieval_lab import claude
    from retrieval_lab.errors import AnswererMissing

    def no_login(*_: object, **__: object) -> None:
        raise AnswererMissing("Claude does not accept the login: set ANTHROPIC_API_KEY")

    monkeypatch.setattr(claude, "ask", no_login)
    out, err = ask(capsys, "who made the clock of Sankt Veit?", "--answerer", "claude", code=3)
    assert out == ""
    assert err.startswith("asking claude (")
    assert "set ANTHROPIC_API_KEY" in err


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = (
        "import sys\nfrom retrieval_lab import cli\n"
        "assert cli.main(['ask', 'who made the clock of Sankt Veit?', '--json']) == 0\n"
        "print([one for one in ('fastembed', 'claude_agent_sdk', 'onnxruntime', 'textual') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# --- the prompt alone ----------------------------------------------------------------------------------------------


def test_a_dry_run_prints_the_prompt_and_its_size(capsys: Capture) -> None:
    out, err = ask(capsys, "who made the clock of Sankt Veit?", "--dry-run")
    assert "Question: who made the clock of Sankt Veit?\n" in out
    assert re.search(r"^\[1\] the-clock-at-sankt-veit#\d{3}\n", out, re.MULTILINE)
    assert f"{len(out):,} characters" in err
    out, _ = ask(capsys, "How do I grow basil on a balcony?", "--dry-run")
    assert out == "no prompt: the support is 0.05, below the floor of 0.25\n"


def test_nothing_in_a_prompt_steers_the_terminal(corpus: Path, capsys: Capture) -> None:
    text = (corpus / "docs" / "bread.md").read_text(encoding="utf-8")
    (corpus / "docs" / "bread.md").write_text(f"{text}\nbake the loaf \x1b[31mred\tnow\n", encoding="utf-8")
    out, _ = ask(capsys, "how to bake the loaf", "--dry-run", "--corpus", corpus)
    assert "\\u001b[31mred\tnow" in out
    assert "\x1b" not in out
    assert "\x1b[31mred\tnow" in answer(capsys, "how to bake the loaf", "--dry-run", "--corpus", corpus)["prompt"]


# --- records -------------------------------------------------------------------------------------------------------


def test_a_recorded_answer_is_shown_again_without_a_database(
    corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, err = ask(capsys, "--golden", "q1", "--record", "--corpus", corpus)
    (path,) = (corpus / "answers").glob("q1-*.json")
    assert err.strip() == f"kept as {path}"
    record = AnswerRecord.load(path)
    assert record.golden is not None
    assert record.relevant == ("bread#000",)
    assert {"retrieval-lab", "python", "postgresql", "pgvector"} <= record.versions.keys()
    assert record.config["support_floor"] == 0.25
    assert AnswerRecord.from_dict(record.to_dict()) == record

    monkeypatch.setattr("retrieval_lab.database.Database.open", lambda *_: pytest.fail("a database was opened"))
    out, _ = ask(capsys, "--replay", path)
    assert out.endswith(said)
    assert answer(capsys, "--replay", path)["text"] == record.said.text
    for more in (["why?"], ["--model", "x"], ["--dry-run"], ["--embedder", "hash"], ["--sources", "3"]):
        _, err = ask(capsys, *more, "--replay", path, code=2)
        assert "give --replay alone" in err, more


@pytest.mark.parametrize("query_id", ["../../away", "..", "a/b", "/etc/away", "nul\n", "x" * 300, "\U0001d400" * 300])
def test_no_id_of_a_golden_query_leads_out_of_the_folder(corpus: Path, query_id: str) -> None:
    path = record_path(corpus, query_id, "2026-11-30T11:34:00+00:00")
    assert path.resolve().parent == corpus.resolve() / "answers"
    assert path.name.endswith("-20261130-113400.json")
    assert len(path.name.encode()) <= 255


def test_a_broken_record_is_told_with_its_place(tmp_path: Path, corpus: Path, capsys: Capture) -> None:
    ask(capsys, "--golden", "q1", "--record", "--corpus", corpus)
    (path,) = (corpus / "answers").glob("q1-*.json")
    whole = json.loads(path.read_text(encoding="utf-8"))
    broken = tmp_path / "broken.json"
    for change, said in (
        ({"cost_usd": "free"}, "cost_usd is 'free'; expected a number"),
        ({"format": 9}, "its format is 9"),
        ({"sources": [{**whole["sources"][0], "number": 7}]}, "sources are not numbered from 1"),
    ):
        broken.write_text(json.dumps({**whole, **change}), encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(str(broken))) as caught:
            AnswerRecord.load(broken)
        assert said in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        AnswerRecord.load(tmp_path / "none.json")


# --- the floor -----------------------------------------------------------------------------------------------------


def calibrate(capsys: Capture, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
    assert cli.main(["calibrate", *map(str, arguments)]) == code
    return tuple(capsys.readouterr())  # type: ignore[return-value]


@pytest.fixture
def many(corpus: Path) -> Path:
    """The corpus with as many golden queries as calibration needs."""
    rows = [GOLDEN.replace("q1", f"q{number}").replace("how to", f"how {number} to") for number in range(10)]
    (corpus / "golden.yaml").write_text("".join(rows), encoding="utf-8")
    return corpus


def test_calibrating_shows_both_sets_and_stores_the_floor(many: Path, capsys: Capture) -> None:
    (many / "lab.yaml").write_text("# ours\ntop_k: 2  # few\n", encoding="utf-8")
    out, _ = calibrate(capsys, many)
    assert "off-corpus questions answered" in out
    assert "golden queries refused" in out
    assert f"stored as support_floor in {many / 'lab.yaml'}" in out
    floor = effective_config(many).config.support_floor
    assert (many / "lab.yaml").read_text(encoding="utf-8") == f"# ours\ntop_k: 2  # few\nsupport_floor: {floor:g}\n"
    assert f"floor {floor:g}: refuses at most 5% of the golden queries, and the most others" in out
    assert answer(capsys, "how to bake a loaf", "--corpus", many)["floor"] == floor


def test_nothing_is_stored_for_settings_that_are_not_the_files(many: Path, capsys: Capture) -> None:
    for arguments in (["--dry-run"], ["--set", "top_k=2"], ["--reranker", "none"]):
        out, _ = calibrate(capsys, many, *arguments)
        assert not (many / "lab.yaml").exists()
        assert ("not stored" in out) == (arguments != ["--dry-run"])


def test_a_calibration_that_cannot_be_stored_is_shown_all_the_same(many: Path, capsys: Capture) -> None:
    (many / "lab.yaml").write_text("{top_k: 2}\n", encoding="utf-8")
    out, err = calibrate(capsys, many, code=2)
    assert "off-corpus questions answered" in out
    assert "write support_floor: " in err


def test_calibration_as_json_has_every_question(many: Path, capsys: Capture, tmp_path: Path) -> None:
    questions = tmp_path / "others.txt"
    questions.write_text("".join(f"why is the sky {number} blue?\n" for number in range(12)), encoding="utf-8")
    found = json.loads(calibrate(capsys, many, "--questions", questions, "--json", "--dry-run")[0])
    assert len(found["golden"]) == 10
    assert len(found["off_corpus"]) == 12
    assert found["stored"] is None
    assert found["off_corpus_answered"]["of"] == 12


def test_a_small_set_cannot_calibrate(corpus: Path, capsys: Capture) -> None:
    _, err = calibrate(capsys, corpus, code=2)
    assert "1 golden queries with a relevant chunk; expected at least 10" in err


# --- runs ----------------------------------------------------------------------------------------------------------


def test_a_recorded_evaluation_is_replayed_without_a_database(
    corpus: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "live.json"
    assert cli.main(["eval", str(corpus), "--record", str(path)]) == 0
    said, _ = capsys.readouterr()
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["cost_usd"] == 0.0
    assert kept["fingerprint"]["versions"]["pgvector"]
    assert cli.main(["eval", str(corpus), "--record", str(path)]) == 2
    assert "there already" in capsys.readouterr().err

    monkeypatch.setattr("retrieval_lab.database.Database.open", lambda *_: pytest.fail("a database was opened"))
    assert cli.main(["eval", "--replay", str(path)]) == 0
    assert capsys.readouterr().out == said
    assert cli.main(["eval", "--replay", str(path), "--fail-under", "precision@10=0.5"]) == 1
    assert cli.main(["eval", "--replay", str(path), "--k", "3"]) == 2


# --- entailment ----------------------------------------------------------------------------------------------------


def test_a_model_says_how_far_the_sources_entail_each_sentence(capsys: Capture, tmp_path: Path) -> None:
    folder = nli_folder(tmp_path / "nli")
    question = "who made the clock of Sankt Veit?"
    found = answer(capsys, question, "--entailment", folder)["entailment"]
    assert len(found["sentences"]) == len(answer(capsys, question)["text"].splitlines())
    assert all(0 < one["probability"] < 1 for one in found["sentences"])
    out, _ = ask(capsys, question, "--entailment", folder)
    assert f"entailed by the sources: {found['mean']:.2f} on the mean of {len(found['sentences'])}" in out
    assert "on the mean" not in ask(capsys, "How do I grow basil on a balcony?", "--entailment", folder)[0]


def test_a_model_that_is_not_to_be_had_is_told(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "who made the clock of Sankt Veit?"
    with monkeypatch.context() as before:
        before.setattr("retrieval_lab.answering.say", lambda *_: pytest.fail("somebody was asked, and perhaps paid"))
        _, err = ask(capsys, question, "--entailment", tmp_path / "none", code=2)
    assert "there is no such folder" in err
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.model_info", lambda *_, **__: (_ for _ in ()).throw(OSError("no network")))
    _, err = ask(capsys, question, "--entailment", "somebody/nli", code=3)
    assert f"model somebody/nli is not in {tmp_path} and cannot be fetched (no network)" in err
