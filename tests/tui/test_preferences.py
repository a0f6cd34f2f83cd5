"""Other keys and the kept theme: what is taken up, and what is said of a file that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from retrieval_lab.types import GoldenQuery
from retrieval_lab_tui import preferences
from retrieval_lab_tui.actions import GROUPS
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.preferences import read_keymap
from retrieval_lab_tui.themes import opposite
from tests.tui.driving import WIDE, Answered, WaitFor, shown


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def test_without_a_file_there_are_no_other_keys(keys_file: Path) -> None:
    assert read_keymap(keys_file) == ({}, ())


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_is_no_fault(keys_file: Path, text: str) -> None:
    keys_file.write_text(text, encoding="utf-8")
    assert read_keymap(keys_file) == ({}, ())


def test_one_key_several_and_a_digit_are_taken(keys_file: Path) -> None:
    keys_file.write_text("next_golden: ctrl+n\nnext_miss: 'm, ctrl+m'\nlist_7: 7\n", encoding="utf-8")
    assert read_keymap(keys_file) == ({"next_golden": "ctrl+n", "next_miss": "m,ctrl+m", "list_7": "7"}, ())


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("next_miss: z\nnext_mis: y\n", 2, "next_mis: no such action"),
        ("next_miss: z\nnext_miss: y\n", 2, "is there twice"),
        ("next_miss: n\n", 1, "the key n is that of next_golden"),
        ("next_miss: [a, b]\n", 1, "expected a key such as ctrl+n"),
        ("next_miss: true\n", 1, "expected a key such as ctrl+n"),
        ("next_miss:\n", 1, "expected a key such as ctrl+n"),
        ("next_miss: a b\n", 1, "expected a key such as ctrl+n"),
        ("next_miss: 'a,,b'\n", 1, "expected a key such as ctrl+n"),
        ("- next_miss\n", 1, "expected `action: key`"),
        ("just text\n", 1, "expected `action: key`"),
        ("next_miss: z\n  y: [\n", 2, "not YAML"),
        ("next_miss: !!python/object:os.system x\n", 1, "tag"),
        ("[a]: x\n", 1, "a list: no such action"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line(keys_file: Path, text: str, line: int, message: str) -> None:
    keys_file.write_text(text, encoding="utf-8")
    keymap, faults = read_keymap(keys_file)
    assert "next_mis" not in keymap
    assert len(faults) == 1
    assert str(faults[0]).startswith(f"{keys_file}:{line}: ")
    assert message in str(faults[0])


def test_two_actions_may_change_their_keys_one_after_the_other(keys_file: Path) -> None:
    keys_file.write_text("next_golden: z\nnext_miss: n\n", encoding="utf-8")
    assert read_keymap(keys_file) == ({"next_golden": "z", "next_miss": "n"}, ())


def test_ids_are_unique_and_no_key_has_two_meanings_in_one_place() -> None:
    ids = [action.id for group in GROUPS.values() for action in group]
    assert len(ids) == len(set(ids))
    for where, group in GROUPS.items():
        keys = [key for action in group for key in action.keys.split(",")]
        assert len(keys) == len(set(keys)), where


async def test_the_users_keys_work_and_the_help_and_the_footer_name_them(
    app: ExplorerApp, answered: Answered, golden: list[GoldenQuery]
) -> None:
    preferences.keys_path().write_text("next_golden: ctrl+n\nquit: ctrl+x\nnext_mis: z\n", encoding="utf-8")
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, golden[0].query)
        await pilot.press("ctrl+n")
        await answered(pilot, golden[1].query)
        assert "! 1 problem" in shown(app, "#header")
        await pilot.press("q", "n")
        assert app.is_running
        assert app.explore.active_bindings["ctrl+n"].binding.id == "next_golden"
        assert "n" not in app.explore.active_bindings
        await pilot.press("question_mark")
        page = str(app.screen.query_one(Static).visual)
        assert "ctrl+n " in page
        assert str(preferences.keys_path()) in page
        await pilot.press("escape", "exclamation_mark")
        assert "next_mis: no such action" in str(app.screen.query_one(Static).visual)
        await pilot.press("escape", "ctrl+x")
    assert app.return_code == 0


async def test_a_theme_is_kept_for_the_next_start(answered: Answered, small_corpus: Path) -> None:
    for before, after in (("lab-dark", "lab-light"), ("lab-light", "lab-dark")):
        app = ExplorerApp(small_corpus)
        async with app.run_test(size=WIDE) as pilot:
            await answered(pilot, "how long does the loaf bake")
            assert app.theme == before
            await pilot.press("d")
            assert app.theme == after
        app.close_lab()


@pytest.mark.parametrize("kept", [b"no-such-theme\n", b"\xff\xfe", b""])
async def test_a_theme_that_is_not_there_is_no_reason_to_stop(
    kept: bytes, small_corpus: Path, wait_for: WaitFor
) -> None:
    (preferences.data_dir() / "theme").write_bytes(kept)
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for(pilot, lambda: app.explore.answer is not None)
        assert app.theme == "lab-dark"
    app.close_lab()


@pytest.mark.parametrize(
    ("theme", "dark", "other"),
    [
        ("lab-dark", True, "lab-light"),
        ("textual-light", False, "textual-dark"),
        ("atom-one-dark", True, "atom-one-light"),
        ("dracula", True, "lab-light"),
        ("rose-pine-dawn", False, "lab-dark"),
    ],
)
async def test_every_theme_has_a_counterpart(theme: str, dark: bool, other: str, app: ExplorerApp) -> None:
    async with app.run_test():
        assert opposite(theme, dark=dark) == other
        assert other in app.available_themes
