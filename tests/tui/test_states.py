"""What the screen says while something is waited for, and when something is wrong, and which key helps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.widgets import ContentSwitcher, Input, Static

from retrieval_lab.database import Database
from retrieval_lab.errors import EnvironmentMissing, FaultyInput
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab
from retrieval_lab.trace import Trace
from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.measuring import MeasuringProgressed
from retrieval_lab_tui.screens.confirm import Confirm
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.widgets.opening import Opening
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown, write
from tests.tui.fakes import FixedClock, SlowLab, gated, never_open, slowly_indexed


async def test_a_newer_question_replaces_one_that_is_still_running(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gates: dict[str, threading.Event] = {}

    app = ExplorerApp(small_corpus, open_lab=gated(gates))
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

    app = ExplorerApp(small_corpus, open_lab=gated(gates))
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


async def test_a_slow_question_shows_its_seconds_and_how_to_stop_it(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    clock, gates = FixedClock(), {"how long does the loaf bake": threading.Event()}
    gates["how long does the loaf bake"].set()
    app = ExplorerApp(small_corpus, open_lab=gated(gates), clock=clock)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "asking… " in shown(app, "#header"))
        assert "stops" not in shown(app, "#header")
        clock.now += 3.24
        await wait_for(pilot, lambda: "asking… 3.2 s · esc stops" in shown(app, "#header"))
        await pilot.press("escape")
        await wait_for(pilot, lambda: "NOT ANSWERED  stopped" in shown(app, "#fate"))
        assert "asking" not in shown(app, "#header")
        gates["leeks"].set()
    app.close_lab()


async def test_questions_that_were_replaced_while_they_waited_are_never_asked(
    small_corpus: Path, answered: Answered
) -> None:
    """The first one hangs in the server; of those behind it only the last is wanted."""
    asked: list[str] = []

    class WatchedLab(SlowLab):
        def _trace(self, reading: Any, pipeline: Any, query: str | GoldenQuery) -> Trace:
            asked.append(query if isinstance(query, str) else query.query)
            return super()._trace(reading, pipeline, query)

    app = ExplorerApp(small_corpus, open_lab=WatchedLab.open)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        app._cancel_running = lambda _: None  # type: ignore[method-assign] - so that they pile up
        asked.clear()
        for question in ("slow leeks", "one leek", "two leeks", "three leeks"):
            await write(pilot, question)
        lab = app._lab
        assert lab is not None
        lab.cancel()
        await answered(pilot, "three leeks")
        assert asked == ["three leeks"]
    app.close_lab()


async def test_escape_stops_indexing_which_r_goes_on_with(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    for number in range(20):
        (small_corpus / "docs" / f"note{number:02d}.md").write_text(f"# Note\n\nNumber {number}.\n", encoding="utf-8")
    app = ExplorerApp(small_corpus, open_lab=slowly_indexed(0.03))
    async with app.run_test(size=NARROW) as pilot:
        opening = app.explore.query_one(Opening)
        await wait_for(pilot, lambda: "Indexing 5 of 22" in str(opening.query_one(Static).visual))
        assert "esc stops" in str(opening.query_one(Static).visual)
        await pilot.press("escape")
        text = str(opening.query_one(Static).visual)
        assert "Indexing was interrupted" in text
        assert "You stopped it after" in text
        assert "of 22 documents" in text
        assert "r go on" in text
        await pilot.press("r")
        await answered(pilot, "how long does the loaf bake")
        assert app._lab is not None
        assert app._lab.index.unchanged >= 5
    app.close_lab()


async def test_waiting_for_another_process_is_said(wait_for: WaitFor) -> None:
    app = ExplorerApp(open_lab=never_open(Progress(0, 0, waiting=True)))
    async with app.run_test(size=NARROW) as pilot:
        text = app.explore.query_one(Opening).query_one(Static)
        await wait_for(pilot, lambda: "Another process is indexing this corpus" in str(text.visual))
        await pilot.press("escape")
        assert "Indexing was interrupted" in str(text.visual)
        await pilot.press("q")
    assert app.return_code == 0
    app.close_lab()


async def test_files_that_changed_on_disk_are_told_with_the_key_that_reads_them(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        app.look_at_files()
        await pilot.pause(0.1)
        assert "files changed" not in shown(app, "#header")
        (small_corpus / "docs" / "soup.md").write_text("# Soup\n\nNo vegetables at all.\n", encoding="utf-8")
        (small_corpus / "docs" / "tea.md").write_text("# Tea\n\nSteep.\n", encoding="utf-8")
        app.look_at_files()
        await wait_for(pilot, lambda: "2 files changed: r" in shown(app, "#header"))
        await pilot.press("r")
        await wait_for(pilot, lambda: "3 docs" in shown(app, "#header"))
        assert "files changed" not in shown(app, "#header")
    app.close_lab()


async def test_golden_faults_are_told_and_questions_can_be_asked_all_the_same(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    (small_corpus / "golden.yaml").write_text("- {query_id: q1, query: '', kind: k}\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for(pilot, lambda: "GOLDEN SET FAULTY  ! says where" in shown(app, "#fate"))
        await pilot.press("m")
        assert "golden.yaml has faults: ! lists them." in next(iter(app._notifications)).message
        await pilot.press("exclamation_mark")
        assert "golden.yaml:1" in str(app.screen.query_one(Static).visual)
        await pilot.press("escape")
        await write(pilot, "potatoes")
        await answered(pilot, "potatoes")
    app.close_lab()


async def test_what_is_typed_survives_a_server_that_goes_away_and_enter_reconnects(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, database: Database
) -> None:
    gates: dict[str, threading.Event] = {}
    app = ExplorerApp(small_corpus, open_lab=gated(gates, closed={"leeks"}))
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await wait_for(pilot, lambda: app.measuring.misses is not None)
        before = app.explore.answer
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        await pilot.press("slash", *"potatoes", "backspace")
        lab = app._lab
        assert lab is not None
        conn = lab._questions._conn
        assert conn is not None
        with database.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
        gates["leeks"].set()
        await wait_for(pilot, lambda: "NOT ANSWERED  the server is gone in the vector stage" in shown(app, "#fate"))
        assert "r asks again" in shown(app, "#fate")
        assert app.explore.answer is before
        assert app.explore.query_one("#results").has_class("stale")
        assert "●" not in shown(app, "#tabs")
        assert app.explore.query_one("#query", Input).value == "potatoe"
        await pilot.press("s", "enter")
        await answered(pilot, "potatoes")
    app.close_lab()


async def test_escape_frees_the_server_within_a_second_and_the_next_question_is_answered(
    small_corpus: Path, answered: Answered, wait_for: WaitFor, database: Database
) -> None:
    def sleeping() -> bool:
        with database.connect() as admin:
            found = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND state = 'active'"
                " AND pid <> pg_backend_pid()"
            ).fetchone()
        return bool(found and found[0])

    app = ExplorerApp(small_corpus, open_lab=SlowLab.open)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "slow leeks")
        await wait_for(pilot, sleeping)
        began = time.monotonic()
        await pilot.press("escape")
        await wait_for(pilot, lambda: "NOT ANSWERED  stopped" in shown(app, "#fate"))
        await wait_for(pilot, lambda: not sleeping())
        assert time.monotonic() - began < 1.5  # a second for the server, the rest for the test's own questions
        await write(pilot, "leeks")
        await answered(pilot, "leeks")
        await pilot.pause(0.1)
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "leeks"
    app.close_lab()


async def test_leaving_while_indexing_is_asked_about_and_what_is_done_stays(
    small_corpus: Path, wait_for: WaitFor
) -> None:
    for number in range(40):
        (small_corpus / "docs" / f"note{number:02d}.md").write_text(f"# Note\n\nNumber {number}.\n", encoding="utf-8")
    app = ExplorerApp(small_corpus, open_lab=slowly_indexed(0.1))
    async with app.run_test(size=NARROW) as pilot:
        opening = app.explore.query_one(Opening)
        await wait_for(pilot, lambda: "Indexing 3 of 42" in str(opening.query_one(Static).visual))
        for key in ("n", "escape", "q"):
            await pilot.press("q")
            await wait_for(pilot, lambda: isinstance(app.screen, Confirm))
            assert "of 42 documents are indexed, and stay so" in str(app.screen.query_one(Static).visual)
            await pilot.press(key)
            await wait_for(pilot, lambda: app.screen is app.explore)
        await pilot.press("q")
        await wait_for(pilot, lambda: isinstance(app.screen, Confirm))
        began = time.monotonic()
        await pilot.press("y")
    assert time.monotonic() - began < 2
    assert app.return_code == 0
    app.close_lab()
    with Lab.open(small_corpus) as again:
        assert again.index.unchanged >= 3
        assert again.index.unchanged + len(again.index.indexed) == 42


async def test_the_golden_set_is_measured_with_a_count(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    gate = threading.Event()

    class HangingLab(Lab):
        def evaluate_queries(self, *args: Any, progress: Any, **kwargs: Any) -> Any:
            progress(7, 48)
            gate.wait(10)
            return super().evaluate_queries(*args, progress=progress, **kwargs)

    app = ExplorerApp(small_corpus, open_lab=HangingLab.open)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await pilot.press("m")
        assert "still being measured" in next(iter(app._notifications)).message
        await pilot.press("e")
        await wait_for(pilot, lambda: isinstance(app.screen, MeasuresScreen))
        app.measuring._post(MeasuringProgressed(7, 48))
        await wait_for(pilot, lambda: "measuring 7 of 48" in str(app.screen.query_one("#groups", Static).visual))
        gate.set()
        await wait_for(pilot, lambda: "recall@10" in str(app.screen.query_one("#groups", Static).visual))
    app.close_lab()


async def test_a_golden_set_that_cannot_be_measured_is_told(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    class FailingLab(Lab):
        def evaluate_queries(self, *_: Any, **__: Any) -> Any:
            raise EnvironmentMissing("the server is gone [/]")

    app = ExplorerApp(small_corpus, open_lab=FailingLab.open)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await wait_for(pilot, lambda: len(app._notifications) > 0)
        assert next(iter(app._notifications)).message == "the server is gone [/]"
        assert app.is_running
    app.close_lab()


async def test_what_comes_back_while_the_app_ends_is_not_shown(
    small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    """The widgets are gone before the last messages are handled."""
    gates: dict[str, threading.Event] = {}
    app = ExplorerApp(small_corpus, open_lab=gated(gates, closed={"leeks"}))
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, "how long does the loaf bake")
        await write(pilot, "leeks")
        await wait_for(pilot, lambda: "leeks" in gates)
        app._exit = True  # as `exit` leaves it, and then the widgets go
        gates["leeks"].set()
        await pilot.pause(0.3)
        assert app.explore.answer is not None
        assert app.explore.answer.question.query == "how long does the loaf bake"
    app.close_lab()
