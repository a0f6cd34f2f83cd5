"""TREC collections: found in a folder or named, with tagged documents or JSON lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from retrieval_lab import cli
from retrieval_lab.corpus import read_corpus
from retrieval_lab.errors import InputError
from retrieval_lab.golden import load_golden
from retrieval_lab.importing.trec_source import find_files, read_trec
from tests.core.importing.collections import write_lines

TOPICS = """\
<top>
<num> Number: 301
<title> inn signs
<desc> Description:
not read
</top>
<top>
<num> Number: 302
<title> leeks
</top>
<top>
<num> Number: 303
<title> nobody judged this
</top>
"""
TAGGED = """\
<DOC>
<DOCNO> FT-1 </DOCNO>
<HEADLINE> The &amp; Sign </HEADLINE>
<TEXT>
The <b>inn</b> sign was painted.
</TEXT>
<TEXT>And hung.</TEXT>
<FOOT>not text</FOOT>
</DOC>

<doc><docno>FT-2</docno> <title>Soup</title> Boil the leeks.</doc>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    origin = tmp_path / "trec"
    (origin / "documents").mkdir(parents=True)
    (origin / "documents" / "ft.sgml.gz").write_bytes(gzip.compress(TAGGED.encode()))
    (origin / "documents" / "latin.txt").write_bytes(b"<DOC><DOCNO>L1</DOCNO>Caf\xe9</DOC>\n")
    (origin / "topics.301-303").write_text(TOPICS, encoding="utf-8")
    (origin / "qrels.txt").write_text("301 0 FT-1 2\n301 0 FT-2 0\n302 0 L1 0\n", encoding="utf-8")
    return origin


def test_a_folder_becomes_a_corpus(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", "trec", str(folder), str(tmp_path / "corpus")]) == 0
    out = capsys.readouterr().out
    assert "3 documents, 2 queries" in out
    assert "queries without a label: 1, the first 303" in out
    assert "files that are not UTF-8, taken as Latin-1: 1, the first " in out
    documents = {one.doc_id: one.text for one in read_corpus(tmp_path / "corpus").documents}
    assert {key: text.split() for key, text in documents.items()} == {
        "FT-1": ["#", "The", "&", "Sign", "The", "inn", "sign", "was", "painted.", "And", "hung."],
        "FT-2": ["#", "Soup", "Boil", "the", "leeks."],
        "L1": ["Café"],
    }
    first, second = load_golden(tmp_path / "corpus" / "golden.yaml")
    assert (first.query_id, first.query, first.kind) == ("301", "inn signs", "trec")
    assert first.relevant == (("FT-1", 2), ("FT-2", 0))
    assert (second.kind, second.level, second.relevant) == ("no-answer", "none", (("L1", 0),))


def test_files_can_be_named_and_documents_be_json_lines(folder: Path, tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "corpus.jsonl", [{"_id": "FT-1", "text": "inn"}, {"_id": "FT-2", "text": "soup"}])
    files = find_files(tmp_path, folder / "topics.301-303", folder / "qrels.txt", lines)
    source = read_trec(folder, files)
    assert [one.doc_id for one in source.documents] == ["FT-1", "FT-2"]
    assert [(fault.line, fault.query_id) for fault in source.notes.faults] == [(3, "302")]
    assert [one.query_id for one in source.queries] == ["301"]
    assert source.queries[0].lines["relevant.FT-2"] == 2


def test_what_cannot_be_found_is_asked_for(folder: Path) -> None:
    (folder / "old-topics").write_text(TOPICS, encoding="utf-8")
    with pytest.raises(InputError, match=r"old-topics, topics\.301-303 could be the topics; name the files with"):
        find_files(folder)
    with pytest.raises(InputError, match="no file could be the qrels"):
        find_files(folder / "documents", folder / "old-topics")


@pytest.mark.parametrize(("option", "form"), [("--split", "trec"), ("--topics", "beir"), ("--qrels", "squad")])
def test_an_option_of_another_format_is_refused(
    option: str, form: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", form, str(folder), str(tmp_path / "c"), option, "x"]) == 2
    assert f"no effect on {form}" in capsys.readouterr().err
