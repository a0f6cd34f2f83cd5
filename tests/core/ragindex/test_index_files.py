"""The folder of an index: what another program wrote is read, what is damaged is told, what is written is whole."""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.ragindex import FormatError, Hybrid, Index, IndexedChunk, IndexError_, files, flat_search, fnv1a64
from retrieval_lab.ragindex.files import FILES
from retrieval_lab.ragindex.ivf import IVF
from retrieval_lab.ragindex.pcg32 import PCG32
from retrieval_lab.ragindex.swap import swapped
from tests.core.ragindex import plain

TEXTS = [
    "kv cache",
    "kv cache eviction policy",
    "gateway rate limits",
    "日本語 \u2028 line\u0085s \x1b[31m",
    "",
    "Σ [bold]",
]
VECTORS = [[3.0, 4, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [-1, 0, 0, 0], [1, 2, 3, 4]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return plain.write_index(tmp_path / "index", TEXTS, VECTORS)


def chunks(*texts: str) -> list[IndexedChunk]:
    return [IndexedChunk.of(f"c{row}", f"d{row // 2}", text, uri=f"docs/{row}.md") for row, text in enumerate(texts)]


def built(*texts: str) -> Index:
    embedder = HashEmbedder(8)
    return Index.build(chunks(*texts), embedder.embed(texts), embedding_model=embedder.name)


def contents(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir()}


# --- reading and writing -------------------------------------------------------------------------------------------


def test_what_another_program_wrote_is_read(folder: Path) -> None:
    index = Index.open(folder)
    assert [chunk.text for chunk in index.chunks] == TEXTS
    assert (index.meta.index_id, index.meta.dim, index.meta.embedding_model) == ("plain", 4, "hash-4")
    assert isinstance(index.vecs, np.memmap)
    np.testing.assert_allclose(index.vecs, [plain.unit(row) for row in VECTORS], atol=1e-7)
    np.testing.assert_allclose(index.bm25.scores("kv cache"), plain.scores(TEXTS, "kv cache"), atol=1e-12)
    assert index.chunk("d1#002") == index.chunks[2]
    assert index.chunk("d9#999") is None
    assert index.ivf is None


def test_what_was_read_is_written_alike_with_its_further_keys(tmp_path: Path) -> None:
    meta, docs = {"made_by": "another program", "n": 1.5}, {"heading_path": "A > B", "tags": ["x", None], "page": 3}
    folder = plain.write_index(tmp_path / "index", TEXTS, VECTORS, meta=meta, docs=docs)
    Index.open(folder).write(tmp_path / "copy")
    assert {one.name for one in (tmp_path / "copy").iterdir()} == set(FILES)
    for name in ("vectors.f32", "bm25.idx"):
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()
    parsed = [json.loads((one / "meta.json").read_text(encoding="utf-8")) for one in (folder, tmp_path / "copy")]
    assert parsed[0] == parsed[1]
    lines = [(one / "docs.jsonl").read_text(encoding="utf-8").split("\n") for one in (folder, tmp_path / "copy")]
    assert [json.loads(line) for line in lines[0] if line] == [json.loads(line) for line in lines[1]]


def test_an_index_is_written_byte_for_byte_as_the_format_says(tmp_path: Path) -> None:
    index = Index.build(chunks(*TEXTS), np.array(VECTORS), embedding_model="m", chunker={"kind": "none"}, k1=1.5, b=0.5)
    index.write(tmp_path / "made" / "index")
    found = contents(tmp_path / "made" / "index")
    assert found["bm25.idx"] == plain.bm25_file(TEXTS)
    assert found["vectors.f32"] == b"".join(struct.pack("<f", x) for row in VECTORS for x in plain.unit(row))
    assert [json.loads(line)["text"] for line in found["docs.jsonl"].splitlines()] == TEXTS
    meta = json.loads(found["meta.json"])
    assert meta["bm25"] == {"k1": 1.5, "b": 0.5}
    assert {key: meta[key] for key in ("n_chunks", "dim", "embedding_model", "tokenizer", "chunker")} == {
        "n_chunks": 6,
        "dim": 4,
        "embedding_model": "m",
        "tokenizer": "words",
        "chunker": {"kind": "none"},
    }
    assert meta["created_at"].endswith("Z")
    assert (tmp_path / "made" / "index").stat().st_mode & 0o777 == 0o777 & ~umask()
    read = Index.open(tmp_path / "made" / "index")
    assert (read.meta, read.chunks) == (index.meta, index.chunks)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_vectors_are_brought_to_unit_length_and_those_that_have_it_stay() -> None:
    unit = HashEmbedder(16).embed(["a b c", "d", ""])
    index = Index.build(chunks("a", "b", "c"), unit, embedding_model="hash-16")
    assert index.vecs.tobytes() == unit.tobytes()
    longer = Index.build(chunks("a", "b", "c"), unit * 7, embedding_model="hash-16")
    np.testing.assert_allclose(longer.vecs, unit, atol=1e-6)


def test_equal_indexes_have_equal_names_and_others_have_others() -> None:
    assert built("a", "b").meta.index_id == built("a", "b").meta.index_id
    assert len({built(*texts).meta.index_id for texts in (["a", "b"], ["b", "a"], ["a"], ["a", "b c"])}) == 4


def test_an_index_without_chunks_is_an_index(tmp_path: Path) -> None:
    built().write(tmp_path / "empty")
    index = Index.open(tmp_path / "empty")
    assert Hybrid(index, HashEmbedder(8)).retrieve("x", 3) == []


def test_an_inverted_file_is_seeded_by_the_name_of_the_index(folder: Path) -> None:
    index = Index.open(folder)
    ivf = index.build_ivf(3, 2)
    assert index.ivf is ivf
    same = IVF.build(np.array(index.vecs), 3, 2, PCG32(fnv1a64("plain")))
    assert [rows.tolist() for rows in ivf.lists] == [rows.tolist() for rows in same.lists]
    query = np.array([1.0, 0, 0, 1])
    assert index.nearest(query, 4, nprobe=3) == flat_search(np.array(index.vecs), query, 4)


# --- whole or not at all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False])
def test_an_index_is_replaced_and_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if not at_once:
        monkeypatch.setattr(files, "swapped", lambda *_: False)
    place = tmp_path / "index"
    built("old", "older").write(place)
    opened = Index.open(place)
    built("new").write(place)
    assert [chunk.text for chunk in Index.open(place).chunks] == ["new"]
    assert opened.vecs.shape == (2, 8)  # who has the old one open goes on reading it
    assert float(np.abs(opened.vecs).max()) > 0
    opened.write(place)
    assert [chunk.text for chunk in Index.open(place).chunks] == ["old", "older"]
    assert [one.name for one in tmp_path.iterdir()] == ["index"]


def test_an_index_is_in_its_place_at_every_moment_of_its_replacement(tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    (tmp_path / "other").mkdir()
    if not swapped(tmp_path / "probe", tmp_path / "other"):
        pytest.skip("this system cannot exchange two folders at once")
    place, stop, missing = tmp_path / "index", threading.Event(), []
    built("old").write(place)

    def watch() -> None:
        while not stop.is_set():
            if not place.is_dir():
                missing.append(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(20):
        built("new", "newer").write(place)
    stop.set()
    watcher.join()
    assert missing == []


@pytest.mark.parametrize("failing", ["write", "fsync", "rename"])
def test_a_write_that_fails_leaves_the_old_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    place = tmp_path / "index"
    built("old").write(place)
    before = contents(place)
    calls = []

    def fail(*arguments: Any) -> Any:
        calls.append(arguments)
        if failing == "rename" and len(calls) != 2:  # the old index is aside by then
            return plain_rename(*arguments)
        raise OSError(28, "No space left on device")

    plain_rename = Path.rename
    if failing == "rename":
        monkeypatch.setattr(files, "swapped", lambda *_: False)
        monkeypatch.setattr(Path, "rename", fail)
    elif failing == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        built("new").write(place)
    monkeypatch.undo()
    assert calls
    assert contents(place) == before
    assert [one.name for one in tmp_path.iterdir()] == ["index"]


def test_what_is_no_index_is_never_replaced(tmp_path: Path) -> None:
    index = built("x")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("mine")
    for name in ("file", "folder"):
        with pytest.raises(InputError, match="no index to replace"):
            index.write(tmp_path / name)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    index.write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert Index.open(tmp_path / "empty").chunks == index.chunks
    with pytest.raises(InputError, match="cannot be written"):
        index.write(tmp_path / "file" / "below")


def test_what_cannot_be_written_is_told_before_the_disk_is_touched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lone surrogate"):
        IndexedChunk.of("c", "d", "\ud800")
    with pytest.raises(InputError, match="too long"):
        built("x" * 70_000).write(tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


# --- what is damaged -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_of_every_file_is_noticed(tmp_path: Path, name: str) -> None:
    place = tmp_path / "index"
    built("kv cache", "日本 eviction").write(place)
    data = (place / name).read_bytes()
    for size in range(len(data)):
        (place / name).write_bytes(data[:size])
        with pytest.raises(IndexError_):
            Index.open(place)
    (place / name).write_bytes(data)
    assert Index.open(place).meta.n_chunks == 2


def test_a_line_end_at_the_end_is_optional_and_no_truncation_gives_a_smaller_index(tmp_path: Path) -> None:
    folder = plain.write_index(tmp_path / "index", TEXTS[2:4], VECTORS[2:4])
    data = (folder / "docs.jsonl").read_bytes()
    assert data.endswith(b"\n")
    for size in range(len(data) - 1):
        (folder / "docs.jsonl").write_bytes(data[:size])
        with pytest.raises(IndexError_):
            Index.open(folder)
    (folder / "docs.jsonl").write_bytes(data[:-1])
    assert len(Index.open(folder).chunks) == 2


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(IndexError_, match=f"{name}: no such file"):
        Index.open(folder)
    (folder / name).mkdir()
    with pytest.raises(IndexError_, match=name):
        Index.open(folder)
    with pytest.raises(IndexError_, match="no such folder"):
        Index.open(folder / "nowhere")


def changed(file: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / file
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        lines = change(lines) or lines
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    return apply


def put(key: str, value: Any, row: int = 0) -> Callable[[Any], Any]:
    return lambda lines: lines[row].update({key: value})


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (changed("docs.jsonl", lambda lines: lines[:-1]), IndexError_, "6 chunks, docs.jsonl 5, bm25.idx 6"),
        (changed("docs.jsonl", put("chunk_id", "d0#000", 3)), IndexError_, "two chunks have the id 'd0#000'"),
        (changed("docs.jsonl", put("text", 5, 2)), FormatError, "docs.jsonl:3: text is 5; expected text"),
        (changed("docs.jsonl", put("n_tokens", -1, 1)), FormatError, "docs.jsonl:2: n_tokens is -1"),
        (changed("docs.jsonl", put("text", "\ud800", 1)), FormatError, "docs.jsonl:2: text holds a lone surrogate"),
        (changed("docs.jsonl", put("x", float("nan"), 1)), FormatError, "docs.jsonl:2: .*NaN is no number"),
        (changed("docs.jsonl", lambda lines: [*lines, [1]]), FormatError, "docs.jsonl:7: .* expected an object"),
        (changed("docs.jsonl", lambda lines: [{**lines[0], "text": None}]), FormatError, "text is null"),
        (changed("meta.json", put("n_chunks", 7)), FormatError, "96 bytes; expected 112, for 7 vectors"),
        (changed("meta.json", put("dim", 5)), FormatError, "96 bytes; expected 120"),
        (changed("meta.json", put("dim", 2**40)), FormatError, "dim is 1099511627776"),
        (changed("meta.json", put("dim", "4")), FormatError, "meta.json: dim is '4'"),
        (changed("meta.json", put("bm25", None)), FormatError, "bm25 is null"),
        (changed("meta.json", put("bm25", {"k1": -1, "b": 0.5})), FormatError, "k1 is -1"),
        (changed("meta.json", lambda lines: lines[0].pop("index_id") and None), FormatError, "index_id is missing"),
        (changed("meta.json", lambda _: [[]]), FormatError, "expected an object"),
    ],
)
def test_a_faulty_folder_is_told_by_its_fault(
    folder: Path, damage: Callable[[Path], None], kind: type[Exception], message: str
) -> None:
    damage(folder)
    with pytest.raises(kind, match=message) as raised:
        Index.open(folder)
    assert type(raised.value) is kind
    assert isinstance(raised.value, ValueError)


def test_vectors_that_are_not_finite_are_a_format_error(folder: Path) -> None:
    data = bytearray((folder / "vectors.f32").read_bytes())
    data[20:24] = struct.pack("<f", float("nan"))
    (folder / "vectors.f32").write_bytes(data)
    with pytest.raises(FormatError, match="vector 1 holds NaN"):
        Index.open(folder)


@settings(max_examples=150)
@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=5),
    st.integers(0, 60),
    st.binary(max_size=20),
)
def test_damaged_files_are_an_error_of_ours_or_an_index_that_works(
    tmp_path: Path, name: str, changes: list[tuple[int, int]], cut: int, more: bytes
) -> None:
    place = tmp_path / "index"
    shutil.rmtree(place, ignore_errors=True)
    plain.write_index(place, TEXTS, VECTORS)
    data = bytearray((place / name).read_bytes())
    for offset, byte in changes:
        data[offset % len(data)] = byte
    (place / name).write_bytes(bytes(data[: len(data) - cut if cut > 50 else len(data)]) + (more if cut < 9 else b""))
    try:
        index = Index.open(place)
    except IndexError_:
        return
    assert len(index.chunks) == len(TEXTS)
    found = Hybrid(index, HashEmbedder(4)).retrieve("kv cache", 5)
    assert all(hit.chunk_id == index.chunks[hit.index].chunk_id for hit in found)
