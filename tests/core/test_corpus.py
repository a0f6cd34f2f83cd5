"""Reading a corpus: which files, in which order, under which names, and what becomes of files that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval_lab.corpus import load_documents, read_corpus
from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.types import Document


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return root


def test_docs_come_before_stories_each_sorted_by_file_name(tmp_path: Path) -> None:
    names = ["stories/a.txt", "docs/z.md", "docs/b.md", "docs/B.md", "docs/é.md", "stories/C.txt"]
    write(tmp_path, dict.fromkeys(names, "text"))
    # Code points: upper case before lower case before accents.
    assert [doc.doc_id for doc in load_documents(tmp_path)] == ["B", "b", "z", "é", "C", "a"]


def test_the_order_is_that_of_file_names_not_of_stems(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "x", "docs/a-b.md": "y"})
    assert "a-b.md" < "a.md"
    assert "a" < "a-b"
    assert [doc.doc_id for doc in load_documents(tmp_path)] == ["a-b", "a"]


def test_only_md_of_docs_and_txt_of_stories_are_read(tmp_path: Path) -> None:
    ignored = ["docs/b.txt", "docs/c.markdown", "stories/d.md", "e.md", "f.txt", "docs/deeper/g.md", "golden.yaml"]
    write(tmp_path, {"docs/a.md": "# A", "stories/h.txt": "h", **dict.fromkeys(ignored, "no")})
    assert [doc.doc_id for doc in load_documents(tmp_path)] == ["a", "h"]


def test_one_of_the_two_folders_is_enough(tmp_path: Path) -> None:
    write(tmp_path, {"stories/h.txt": "h"})
    assert load_documents(tmp_path) == [Document("h", "h", "h")]


def test_doc_id_is_the_stem_with_its_dots(tmp_path: Path) -> None:
    write(tmp_path, {"docs/v1.2 notes.md": "# T"})
    assert load_documents(tmp_path) == [Document("v1.2 notes", "T", "# T")]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# First\n\n# Second\n", "First"),
        ("## Sub\n\ntext\n\n# Top\n", "Top"),
        ("```\n# a comment\n```\n\n# Real\n", "Real"),
        ("#hash\n\n# Real\n", "Real"),
        ("intro\n# Right below\n", "Right below"),
    ],
)
def test_title_of_markdown_is_its_first_level_1_heading(tmp_path: Path, text: str, title: str) -> None:
    write(tmp_path, {"docs/x.md": text})
    assert load_documents(tmp_path)[0].title == title


def test_title_of_a_story_is_its_first_line_that_is_not_blank(tmp_path: Path) -> None:
    write(tmp_path, {"stories/x.txt": "\n   \nThe Clock\n\nIt was late.\n"})
    assert load_documents(tmp_path)[0].title == "The Clock"


def test_a_story_of_markdown_looking_text_has_its_first_line_as_title(tmp_path: Path) -> None:
    write(tmp_path, {"stories/x.txt": "No. 5\n# not a title\n"})
    assert load_documents(tmp_path)[0].title == "No. 5"


def test_text_is_kept_to_the_character(tmp_path: Path) -> None:
    text = "  # é\u0301 ﬁ 日本\t\n\n\n\x0b trailing  \n\n"
    write(tmp_path, {"docs/x.md": text})
    assert load_documents(tmp_path)[0].text == text


def test_a_byte_order_mark_is_dropped_and_line_ends_become_newlines(tmp_path: Path) -> None:
    write(tmp_path, {"docs/x.md": b"\xef\xbb\xbf# T\r\n\r\nold mac\rline\n"})
    assert load_documents(tmp_path) == [Document("x", "T", "# T\n\nold mac\nline\n")]


def test_an_empty_file_is_a_document_without_text(tmp_path: Path) -> None:
    write(tmp_path, {"docs/x.md": ""})
    assert load_documents(tmp_path)[0].text == ""


def test_a_missing_folder_is_an_input_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        load_documents(tmp_path / "nowhere")


def test_a_folder_without_documents_is_an_input_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    with pytest.raises(InputError, match=str(tmp_path)):
        load_documents(tmp_path)


def hostile(tmp_path: Path) -> Path:
    """A corpus with one file of each fault beside two good ones. A folder is unreadable as a file, for root too."""
    write(
        tmp_path,
        {
            "docs/a-nul.md": b"# A\n\nnul \x00 here\n",
            "docs/b-latin.md": "# B\n\ncaf\xe9\n".encode("latin-1"),
            "docs/d-good.md": "# D\n",
            "docs/twice.md": "# first\n",
            "stories/twice.txt": "second\n",
        },
    )
    (tmp_path / "docs" / "c-folder.md").mkdir()
    return tmp_path


def test_every_unusable_file_is_a_fault_with_its_path_and_line(tmp_path: Path) -> None:
    files = read_corpus(hostile(tmp_path))
    assert [(fault.path.name, fault.line) for fault in files.faults] == [
        ("a-nul.md", 3),
        ("b-latin.md", 3),
        ("c-folder.md", None),
        ("twice.txt", None),
    ]
    nul, latin, folder, twice = (fault.message for fault in files.faults)
    assert "NUL" in nul
    assert "UTF-8" in latin
    assert "0xe9" in latin
    assert "read" in folder
    assert "twice" in twice
    assert "twice.md" in twice


def test_the_other_files_are_still_read(tmp_path: Path) -> None:
    assert [doc.doc_id for doc in read_corpus(hostile(tmp_path)).documents] == ["d-good", "twice"]
    assert [doc.title for doc in read_corpus(tmp_path).documents] == ["D", "first"]


def test_load_documents_raises_all_faults_at_once(tmp_path: Path) -> None:
    with pytest.raises(FaultyInput) as raised:
        load_documents(hostile(tmp_path))
    assert raised.value.faults == read_corpus(tmp_path).faults
    lines = str(raised.value).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"{tmp_path / 'docs' / 'a-nul.md'}:3: ")


def test_a_corpus_of_faults_alone_reports_them(tmp_path: Path) -> None:
    write(tmp_path, {"docs/x.md": b"\xff"})
    with pytest.raises(FaultyInput, match=r"x\.md:1: not UTF-8"):
        load_documents(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path, {"docs/x.md": "secret", "docs/y.md": "open"})
    (tmp_path / "docs" / "x.md").chmod(0)
    files = read_corpus(tmp_path)
    assert [doc.doc_id for doc in files.documents] == ["y"]
    assert [fault.path.name for fault in files.faults] == ["x.md"]


def test_a_pipe_is_a_fault_and_nothing_waits_for_it(tmp_path: Path) -> None:
    write(tmp_path, {"docs/y.md": "open"})
    os.mkfifo(tmp_path / "docs" / "x.md")
    read = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, retrieval_lab.corpus as c; print(c.read_corpus(sys.argv[1]).faults[0])",
            tmp_path,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=30,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "x.md" in read.stdout


def test_a_dangling_link_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path, {"docs/y.md": "open"})
    (tmp_path / "docs" / "x.md").symlink_to(tmp_path / "gone")
    assert [fault.path.name for fault in read_corpus(tmp_path).faults] == ["x.md"]


def test_a_file_name_that_is_no_text_is_a_fault_that_can_be_printed(tmp_path: Path) -> None:
    write(tmp_path, {"docs/good.md": "# Good"})
    try:
        (tmp_path / "docs" / os.fsdecode(b"caf\xe9.md")).write_text("# Coffee", encoding="utf-8")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    files = read_corpus(tmp_path)
    assert [doc.doc_id for doc in files.documents] == ["good"]
    assert len(files.faults) == 1
    assert "caf\\xe9.md" in str(files.faults[0])
    assert str(files.faults[0]).encode("utf-8")


def test_the_bundled_corpus_has_no_faults_and_a_title_for_each_document(corpus_dir: Path) -> None:
    documents = load_documents(corpus_dir)
    names = sorted(path.name for path in (corpus_dir / "docs").glob("*.md"))
    names += sorted(path.name for path in (corpus_dir / "stories").glob("*.txt"))
    assert [doc.doc_id for doc in documents] == [name.rpartition(".")[0] for name in names]
    assert all(doc.title and doc.title in doc.text for doc in documents)
    assert all(doc.title != doc.doc_id for doc in documents)
