"""The bundle: everything about one question in a file, read without a database, every corruption told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import Lab
from retrieval_lab.database import Database
from retrieval_lab.diagnosis import bundle as bundles
from retrieval_lab.diagnosis.bundle import Bundle, make_bundle, read_bundle, write_bundle
from retrieval_lab.diagnosis.proposal import propose
from retrieval_lab.diagnosis.report import journey_report, parse_report
from retrieval_lab.errors import Cancelled, InputError
from tests.core.diagnosis.losing import make_corpus

Json = dict[str, Any]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open(make_corpus(tmp_path_factory.mktemp("bundling") / "fruit")) as opened:
        yield opened


@pytest.fixture(scope="module")
def bundle(lab: Lab) -> Bundle:
    return make_bundle(lab, lab.golden_query("fig"))


@pytest.fixture
def file(bundle: Bundle, tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "fig.json"
    write_bundle(path, bundle)
    return path


# --- what is in it -------------------------------------------------------------------------------------------------


def test_it_holds_what_the_lab_says_about_the_question(lab: Lab, bundle: Bundle) -> None:
    golden = lab.golden_query("fig")
    journey = lab.explain(golden)
    assert (bundle.corpus, bundle.config, bundle.journey) == ("fruit", lab.config, journey)
    assert bundle.trace.golden == golden
    assert [row.chunk_id for row in bundle.trace.final] == [row.chunk_id for row in lab.trace(golden).final]
    assert bundle.parse == lab.parse_view(golden.query)
    assert bundle.rescues is not None
    assert bundle.rescues.tried
    assert bundle.proposal == propose(journey, bundle.rescues)
    assert {"retrieval-lab", "python", "numpy", "postgresql", "pgvector"} == set(bundle.versions)


@pytest.mark.parametrize("query_id", ["apple", "first", "next", "cut", "absent", "gap"])
def test_every_passage_that_is_named_is_there_as_the_lab_has_it(lab: Lab, query_id: str, tmp_path: Path) -> None:
    made = make_bundle(lab, lab.golden_query(query_id), rescues=False)
    path = tmp_path / "x.json"
    write_bundle(path, made)
    found = read_bundle(path)
    assert found == made
    named = [hit.chunk_id for hits in found.trace.lists.values() for hit in hits] + list(found.trace.relevant)
    assert found.chunks(named) == lab.chunks(named)
    assert set(found.chunks(named)) == set(named)
    if found.journey.chunk_id is not None:
        assert found.neighbours == lab.neighbours(found.journey.chunk_id)
    texts = [one.text for one in lab.chunks(named).values()]
    assert lab.matched_words(found.trace, texts) <= found.matched_words
    assert found.rescues is None


def test_the_neighbours_are_those_of_the_wanted_passage(lab: Lab) -> None:
    made = make_bundle(lab, lab.golden_query("next"), rescues=False)
    before, after = made.neighbours
    assert before is not None
    assert (before.chunk_id, after) == ("long#000", None)
    assert before.text.startswith("The violin teacher")


def test_a_question_of_ones_own_is_bundled_with_its_passage(lab: Lab, tmp_path: Path) -> None:
    made = make_bundle(lab, "fig -harbour", "f4#000", rescues=False)
    write_bundle(tmp_path / "own.json", made)
    assert read_bundle(tmp_path / "own.json") == made
    assert (made.trace.golden, made.journey.chunk_id) == (None, "f4#000")
    assert made.parse.dashes
    with pytest.raises(InputError, match="name the passage"):
        make_bundle(lab, "fig")


def test_it_tells_no_path(lab: Lab, file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert str(lab.corpus.parent) not in text
    assert os.environ["RETRIEVAL_LAB_DATA_DIR"] not in text
    assert lab.corpus.parent.name not in text


def test_the_search_for_rescues_can_be_stopped(lab: Lab) -> None:
    asked = iter([False] * 3)
    with pytest.raises(Cancelled):
        make_bundle(lab, lab.golden_query("fig"), cancelled=lambda: next(asked, True))


# --- reading -------------------------------------------------------------------------------------------------------


def test_a_bundle_is_read_back_as_it_was_written(bundle: Bundle, file: Path) -> None:
    found = read_bundle(file)
    assert found == bundle
    assert journey_report(found.journey) == journey_report(bundle.journey)
    assert parse_report(found.parse) == parse_report(bundle.parse)


def test_rescues_come_through(lab: Lab, tmp_path: Path) -> None:
    made = make_bundle(lab, lab.golden_query("pear"))
    assert made.rescues is not None
    assert made.rescues.smallest is not None
    assert made.proposal is not None
    assert "rescued by" in made.proposal.evidence
    write_bundle(tmp_path / "pear.json", made)
    assert read_bundle(tmp_path / "pear.json") == made


def test_reading_needs_no_database(file: Path) -> None:
    script = (
        "import sys, psycopg\n"
        "def refused(*_a, **_k): raise SystemExit('connected')\n"
        "psycopg.connect = psycopg.Connection.connect = refused\n"
        "from pathlib import Path\n"
        "from retrieval_lab.diagnosis.bundle import read_bundle\n"
        "print(read_bundle(Path(sys.argv[1])).journey.lost_at, 'fastembed' in sys.modules)\n"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "RETRIEVAL_LAB_DATA_DIR": str(file.parent / "none")}
    run = subprocess.run(
        [sys.executable, "-c", script, str(file)], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["fusion", "False"]
    assert not (file.parent / "none").exists()


def test_writing_is_whole_or_not_at_all(bundle: Bundle, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_bundle(file, replace(bundle, corpus="other"))
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
    write_bundle(file, replace(bundle, corpus="other"))
    assert read_bundle(file).corpus == "other"
    with pytest.raises(InputError, match="cannot be written"):
        write_bundle(file.parent, bundle)


# --- corruption ----------------------------------------------------------------------------------------------------


def test_what_is_no_file_is_told(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.json: no such file; `retrieval-lab trace"):
        read_bundle(tmp_path / "gone.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_bundle(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_bundle(file / "below")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="not a file"):
        read_bundle(pipe)


def test_a_file_that_is_cut_off_anywhere_is_refused(file: Path) -> None:
    whole = file.read_bytes().rstrip()
    for share in range(20):
        file.write_bytes(whole[: len(whole) * share // 20])
        with pytest.raises(InputError, match=r"fig.json:\d+: not JSON, or only the beginning"):
            read_bundle(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"9" * 5_000, "not JSON"),
        (b"[]", "this is no bundle; `retrieval-lab trace --golden ID --bundle FILE` makes one"),
        (b"{}", "this is no bundle"),
        (b'"bundle"', "this is no bundle"),
        (b'{"kind": "retrieval-lab bundle"}', "a bundle of format null; this version reads format 1"),
        (b'{"kind": "retrieval-lab bundle", "format": 2}', "a bundle of format 2"),
        (b'{"kind": "retrieval-lab bundle", "format": 1}', "broken: neighbours is missing"),
    ],
)
def test_what_is_no_bundle_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"other\.json: ") as caught:
        read_bundle(path)
    assert message in str(caught.value)


def test_a_file_that_is_too_large_is_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_BYTES", file.stat().st_size - 1)
    with pytest.raises(InputError, match="larger than"):
        read_bundle(file)


def put(*path: str | int, value: Any) -> Callable[[Json], None]:
    """A change of one value somewhere in the document."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[Json], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("trace"), "trace is missing"),
        (put("corpus", value=3), "corpus is 3; expected text"),
        (put("versions", value={"python": 3}), "versions.python is 3"),
        (put("matched_words", value="fig"), "matched_words is 'fig'; expected a list"),
        (put("passages", value=[]), "passages is a list; expected an object"),
        (put("passages", "f4#000", "start_char", value=-1), "passages.f4#000.start_char is -1"),
        (put("passages", "f4#000", "chunk_id", value="f5#000"), "passages has 'f5#000' under the name 'f4#000'"),
        (drop("passages", "f4#000"), "the passages, which lack one of trace.lists.text, should have 'f4#000'"),
        (put("neighbours", "before", value="x#000"), "neighbours.before is 'x#000'"),
        (put("proposal", "failure", value="bad luck"), "proposal.failure is 'bad luck'"),
        (put("trace", "format", value=9), "trace: this is no trace of format 1"),
        (put("trace", "lists", "text", 0, "rank", value=2), "trace.lists.text[0].rank is 2; expected 1"),
        (put("trace", "lists", "text", 0, "score", value=float("nan")), "score is nan; expected a number"),
        (put("trace", "lists", "text", 0, "score", value=10**400), "score is 1000"),
        (put("trace", "fused", 0, "ranks", value=[1, 2]), "trace.fused: 'f1#000' has 2 ranks for 1 lists"),
        (put("trace", "final", 0, "chunk_id", value="f4#000"), "lack one of trace.final, should have 'f4#000'"),
        (put("trace", "reranked", 0, "chunk_id", value="zz#000"), "lack one of trace.reranked"),
        (put("trace", "relevant", value=["zz#000"]), "should have 'zz#000'"),
        (put("trace", "query", value="other"), "expected one question"),
        (put("trace", "timings", value={}), "trace.timings should have 'text'"),
        (put("trace", "config", "top_k", value="ten"), "top_k"),
        (put("trace", "chunks", "f1#000", "text", value=None), "text is null"),
        (put("journey", "lost_at", value="nowhere"), "journey: this journey is broken: lost_at is 'nowhere'"),
        (put("journey", "final_rank", value=1), "journey has both a final_rank and a stage"),
        (put("journey", "lists", value={}), "journey.lists is about the lists none; expected text"),
        (put("journey", "lists", "text", "name", value="other"), "journey.lists is about the lists other"),
        (put("journey", "fused", "parts", value={}), "journey.fused.parts is about the lists none"),
        (put("journey", "displacement", "above", 0, "ranks", value={}), "journey.displacement.above"),
        (put("journey", "golden", value=None), "expected one golden query"),
        (put("journey", "nearby", "heading", value=[1]), "nearby.heading[0] is 1"),
        (put("parse", "tokens", value=[{}]), "parse: tokens[0].role is missing"),
        (put("parse", "query", value="other"), "parse.query is 'other'"),
        (put("rescues", "query", value="other"), "rescues.query is 'other'"),
        (put("rescues", "tried", 0, "values", value=-1), "rescues: this search for rescues is broken"),
    ],
)
def test_every_corruption_is_told_with_its_place(file: Path, change: Callable[[Json], None], message: str) -> None:
    document = json.loads(file.read_bytes())
    change(document)
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_bundle(file)
    told = str(caught.value)
    assert told.startswith(f"{file}: ")
    assert message in told
    assert "\n" not in told


def test_any_value_of_another_kind_is_refused_or_read_never_a_crash(file: Path) -> None:
    """Each value in turn becomes each kind of hostile value; only our own error may come of it."""
    text = file.read_text(encoding="utf-8")
    places = list(leaves(json.loads(text)))
    assert len(places) > 300
    refused = 0
    hostile: list[Any] = [None, -1, 10**400, "\x1b[2J\ud800", [], {}]
    for number, place in enumerate(places):
        document = json.loads(text)
        put(*place, value=hostile[number % len(hostile)])(document)
        try:
            Bundle.from_dict(document)
        except InputError:
            refused += 1
    assert refused > len(places) // 3


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where every value stands that holds no others; of the rescues only the first, as they are alike."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner and place:
        yield place
    for key, one in inner:
        if not (place[-1:] == ("rescues",) and isinstance(key, int) and key > 0):
            yield from leaves(one, (*place, key))


def test_hostile_texts_come_through_as_they_are_and_are_shown_as_text(file: Path) -> None:
    document = json.loads(file.read_bytes())
    document["passages"]["f4#000"]["text"] = "[@click=app.quit]go[/] \x1b[31m \ud800"
    document["journey"]["reason"] = "\x1b]0;title\x07"
    file.write_text(json.dumps(document), encoding="utf-8")
    found = read_bundle(file)
    assert found.passages["f4#000"].text == "[@click=app.quit]go[/] \x1b[31m \ud800"
    assert all(line.isprintable() for line in journey_report(found.journey).splitlines())
