"""A bundle in the explorer: the same miss on another machine, without a database, a model or the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from retrieval_lab import database
from retrieval_lab.diagnosis.bundle import make_bundle, read_bundle, write_bundle
from retrieval_lab.diagnosis.replay import Replay
from retrieval_lab.errors import InputError
from retrieval_lab.lab import Lab
from retrieval_lab_tui import cli
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.screens.explain import ExplainScreen
from tests.tui.driving import WIDE, Answered, WaitFor, ranked, shown, write

QUESTION = "how long does the loaf bake"


@pytest.fixture
def path(small_corpus: Path, tmp_path: Path) -> Path:
    found = tmp_path / "miss.json"
    with Lab.open(small_corpus) as lab:
        write_bundle(found, make_bundle(lab, lab.golden[0]))
    return found


@pytest.fixture
def replayed(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExplorerApp]:
    """The explorer on the bundle; whoever wants a database gets an error."""

    def none(*_: Any, **__: Any) -> Any:
        raise AssertionError("a bundle needs no database")

    monkeypatch.setattr(database.Database, "open", none)
    replay = Replay(read_bundle(path))
    app = ExplorerApp(open_lab=lambda *_, **__: replay)
    yield app
    app.close_lab()


async def test_it_shows_the_lists_the_fate_and_the_journey(
    replayed: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    app = replayed
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        assert "a bundle of corpus" in shown(app, "#header")
        assert "no server" in shown(app, "#header")
        assert "FOUND" in shown(app, "#fate")
        assert ranked(app, "final").chunk_id == "bread#000"
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert "bread#000" in str(app.screen.query_one("#title", Static).visual)
        await pilot.press("2")
        await wait_for(pilot, lambda: "english_stem" in str(app.screen.query_one("#page", Static).visual))
        await pilot.press("3")
        await wait_for(pilot, lambda: "No miss" in str(app.screen.query_one("#page", Static).visual))


async def test_what_only_the_corpus_knows_is_said(replayed: ExplorerApp, answered: Answered, wait_for: WaitFor) -> None:
    app = replayed
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, QUESTION)
        for key in ("n", "m", "f", "e", "a"):
            await pilot.press(key)
            assert "one question only" in list(app._notifications)[-1].message, key
            assert app.screen is app.explore
        await pilot.press("o")
        await wait_for(pilot, lambda: "not the files" in list(app._notifications)[-1].message)
        await write(pilot, "potatoes")
        await wait_for(pilot, lambda: "NOT ANSWERED  a bundle holds one question only" in shown(app, "#fate"))
        await pilot.press("r")
        await answered(pilot, QUESTION)
        assert app.is_running


def test_the_methods_of_the_lab_answer_from_the_bundle_or_refuse(path: Path) -> None:
    replay = Replay(read_bundle(path))
    golden = replay.golden[0]
    trace = replay.trace(golden)
    assert replay.explain(trace) == replay.bundle.journey
    assert replay.trace(QUESTION).final == trace.final
    assert replay.changed_files() == ()
    for refused in (
        lambda: replay.trace("another"),
        lambda: replay.explain(golden, "soup#000"),
        lambda: replay.neighbours("soup#000"),
        lambda: replay.parse_view("another"),
        lambda: replay.evaluate(),
        lambda: replay.save_config(replay.config),
    ):
        with pytest.raises(InputError, match="one question only"):
            refused()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("{", "miss.json"),
        (json.dumps({"format": 99}), "this is no bundle"),
    ],
)
def test_a_file_that_is_no_bundle_is_refused_before_the_screen_opens(
    content: str | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "_require_terminal", lambda: None)
    path = tmp_path / "miss.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert cli.main(["explore", "--bundle", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_bundle_comes_alone(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_require_terminal", lambda: None)
    assert cli.main(["explore", str(tmp_path), "--bundle", str(path)]) == 2
    assert "give --bundle alone" in capsys.readouterr().err
