"""What the screen says while something is waited for, and when something is wrong, and which key helps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.widgets import ContentSwitcher, Input, Static

from retrieval_lab.errors import EnvironmentMissing, FaultyInput
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.widgets.opening import Opening
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown, write
from tests.tui.fakes import GatedLab


async def test_a_newer_question_replaces_one_that_is_still_running(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates: dict[str, threading.Event] = {}

    def open_gated(*args: Any, **kwargs: Any) -> Lab:
        lab = GatedLab.open(*args, **kwargs)
        lab.gates = gates
        return lab

    app = ExplorerApp(small_corpus, open_lab=open_gated)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: "how long does the loaf bake" in gates)
        assert "asking" in shown(app, "#header")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        gates["leeks"].set()
        await answered(pilot, "leeks")
        gates["how long does the loaf bake"].set()
        await pilot.pause(0.2)
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "leeks"
    app.close_lab()


async def test_escape_stops_a_running_question_and_the_last_answer_stands(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates = {"how long does the loaf bake": threading.Event()}
    gates["how long does the loaf bake"].set()

    def open_gated(*args: Any, **kwargs: Any) -> Lab:
        lab = GatedLab.open(*args, **kwargs)
        lab.gates = gates
        return lab

    app = ExplorerApp(small_corpus, open_lab=open_gated)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        await pilot.press("escape")
        gates["leeks"].set()
        await pilot.pause(0.2)
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "how long does the loaf bake"
        assert "asking" not in shown(app, "#header")
    app.close_lab()


async def test_a_failed_question_dims_the_last_answer_says_why_and_r_asks_again(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    failures = [EnvironmentMissing("the server is gone [/]")]

    class FailingOnceLab(Lab):
        def trace(self, query: str | GoldenQuery, *args: Any, **kwargs: Any) -> Trace:
            if query == "leeks" and failures:
                raise failures.pop()
            return super().trace(query, *args, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=FailingOnceLab.open)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "NOT ANSWERED  the server is gone [/]" in shown(app, "#fate"))
        assert app.explore.query_one("#results").has_class("stale")
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "how long does the loaf bake"
        await pilot.press("r")
        await answered(pilot, "leeks")
        assert not app.explore.query_one("#results").has_class("stale")
        assert "NOT ANSWERED" not in shown(app, "#fate")
    app.close_lab()


async def test_escape_puts_back_the_question_that_stands_on_the_screen(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        query = app.explore.query_one("#query", Input)
        await pilot.press("slash", *"draft", "escape")
        await pilot.pause()
        assert query.value == "how long does the loaf bake"
        await pilot.press("slash", "backspace", "enter")
        await pilot.pause()
        assert query.value == "how long does the loaf bake"
        assert app.focused is ranked(app, "final")
    app.close_lab()


async def test_a_corpus_that_cannot_be_opened_says_why_and_r_tries_again(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    tries = []

    def open_second_time(*args: Any, **kwargs: Any) -> Lab:
        tries.append(1)
        if len(tries) == 1:
            raise EnvironmentMissing("no server [/]: start one")
        return Lab.open(*args, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=open_second_time)
    async with app.run_test(size=NARROW) as pilot:
        opening = app.explore.query_one(Opening)
        await wait_for(pilot, lambda: opening.has_class("failed"))
        assert "no server [/]: start one" in str(opening.query_one(Static).visual)
        await pilot.press("n", "j", "enter", "escape")
        await pilot.press("r")
        await answered(pilot, "how long does the loaf bake")
    app.close_lab()


async def test_indexing_shows_its_progress(small_corpus: Path, wait_for: WaitFor, answered: Answered) -> None:
    gate = threading.Event()

    def open_slowly(*args: Any, progress: Callable[[Progress], None], **kwargs: Any) -> Lab:
        progress(Progress(12, 32, "hybrid-search"))
        gate.wait(10)
        return Lab.open(*args, progress=progress, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=open_slowly)
    async with app.run_test(size=NARROW) as pilot:
        text = app.explore.query_one(Opening).query_one(Static)
        await wait_for(pilot, lambda: "Indexing 12 of 32 documents · hybrid-search" in str(text.visual))
        assert app.explore.query_one("#body", ContentSwitcher).current == "opening"
        gate.set()
        await answered(pilot, "how long does the loaf bake")
    app.close_lab()


async def test_a_corpus_without_golden_queries_waits_for_a_question(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "golden.yaml").unlink()
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for(pilot, lambda: "press / to write a question" in shown(app, "#fate"))
        await pilot.press("n")
        assert "There is no golden.yaml." in next(iter(app._notifications)).message
        await write(pilot, "potatoes")
        await answered(pilot, "potatoes")
        assert ranked(app, "final").chunk_id == "soup#000"
    app.close_lab()


async def test_faults_of_the_corpus_are_counted_listed_and_gone_once_they_are_mended(
    small_corpus: Path, wait_for: WaitFor
) -> None:
    golden = (small_corpus / "golden.yaml").read_text(encoding="utf-8")
    (small_corpus / "docs" / "broken.md").write_bytes(b"# Broken\n\nnot \xff UTF-8\n")
    (small_corpus / "golden.yaml").write_text("- {query_id: 7}\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: "! 3 problems" in shown(app, "#header"))
        await pilot.press("exclamation_mark")
        listed = str(app.screen.query_one(Static).visual)
        assert "broken.md:3: not UTF-8" in listed
        assert "golden.yaml:1" in listed
        await pilot.press("escape")
        assert isinstance(app.problem, FaultyInput)
        (small_corpus / "docs" / "broken.md").unlink()
        (small_corpus / "golden.yaml").write_text(golden, encoding="utf-8")
        await pilot.press("r")
        await wait_for(pilot, lambda: "1 of 2" in shown(app, "#header"))
        assert "problem" not in shown(app, "#header")
        assert app.problem is None
    app.close_lab()


async def test_q_leaves_while_the_corpus_is_being_opened() -> None:
    cancelled_seen = threading.Event()

    def open_never(*_: Any, cancelled: Callable[[], bool], **__: Any) -> Lab:
        while not cancelled():
            threading.Event().wait(0.01)
        cancelled_seen.set()
        raise EnvironmentMissing("left")

    app = ExplorerApp(open_lab=open_never)
    async with app.run_test(size=NARROW) as pilot:
        await pilot.pause()
        await pilot.press("q")
    assert app.return_code == 0
    app.close_lab()
    assert cancelled_seen.wait(5)


async def test_what_is_typed_while_the_corpus_opens_is_no_command_and_no_question(
    small_corpus: Path, answered: Answered
) -> None:
    gate = threading.Event()

    def open_slowly(*args: Any, **kwargs: Any) -> Lab:
        gate.wait(10)
        return Lab.open(*args, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=open_slowly)
    async with app.run_test(size=NARROW) as pilot:
        await pilot.press("slash", "x", "enter")
        assert app.explore.query_one("#query", Input).value == ""
        gate.set()
        await answered(pilot, "how long does the loaf bake")
    app.close_lab()


async def test_r_sees_changed_files_and_asks_the_same_question_again(small_corpus: Path, answered: Answered) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await answered(pilot, "leeks")
        before = app.explore.answer
        (small_corpus / "docs" / "soup.md").write_text("# Soup\n\nNo vegetables at all.\n", encoding="utf-8")
        await pilot.press("r")
        while app.explore.answer is before or app.explore.answer is None:
            await pilot.pause(0.02)
        assert app.explore.answer.question.query == "leeks"
        assert "No vegetables" in app.explore.answer.chunks["soup#000"].text
    app.close_lab()


async def test_a_faulty_lab_yaml_is_told_with_its_line(small_corpus: Path, wait_for: WaitFor) -> None:
    (small_corpus / "lab.yaml").write_text("top_k: 5\nrerankr: none\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.problem is not None)
        assert "lab.yaml:2: rerankr: unknown key" in str(app.problem)
    app.close_lab()
