"""Makes the pictures of the README from the real app on the bundled corpus: `make screenshots`."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from textual.pilot import Pilot

from retrieval_lab import cli
from retrieval_lab.ablation import folder as ablation_folder
from retrieval_lab.answering import Extractive
from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals import kept
from retrieval_lab.evals.runs import run
from retrieval_lab.lab import Lab
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab_tui import cited, preferences
from retrieval_lab_tui.app import ExplorerApp

FOLDER = Path(__file__).parent
GRID = FOLDER.parent / "fixtures" / "grids" / "pipelines.yaml"
# The exported pictures ask for a web font; without it they need nothing from elsewhere.
WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Picture:
    """`query_id` is the golden query to step to, `keys` are pressed then."""

    name: str
    size: tuple[int, int]
    query_id: str
    keys: tuple[str, ...] = ()


PICTURES = (
    Picture("found", (160, 45), "q01"),
    Picture("missed", (160, 45), "q08", ("1",)),
    Picture("narrow", (80, 24), "q08", ("3",)),
    Picture("settings", (160, 45), "q08", ("s", *["j"] * 11, "left")),
    Picture("compare", (160, 38), "q08", ("C", *"none", "enter")),
    Picture("measures", (160, 32), "q01", ("e", "j", "l")),
    Picture("runs", (160, 14), "q01", ("R",)),
    Picture("versus", (160, 32), "q01", ("R", "enter")),
    Picture("lists", (160, 45), "q02", ("c", *"six", "enter")),
    Picture("ablation", (160, 32), "q01", ("b",)),
    Picture("picker", (120, 30), "q01", ("f", "f3", "f2")),
    Picture("help", (120, 40), "q01", ("question_mark",)),
    Picture("why", (160, 45), "q08", ("x",)),
    Picture("answer", (160, 32), "q04", ("A",)),
    Picture("rescues", (160, 30), "q24", ("x", "3")),
    Picture("analysis", (160, 45), "q08", ("a", "j", "j", "j")),
    Picture("light", (160, 45), "q08", ("2", "d")),
)


RUNS = {
    "text-only": PipelineConfig(retrievers=(TextSearch(),)),
    "without-mmr": PipelineConfig(mmr_lambda=None),
    "no-reranker": PipelineConfig(reranker=NoReranker(), mmr_lambda=None),
}


def _keep_runs(folder: Path) -> None:
    """Keep a run of each of these pipelines, the last one as the newest, and an ablation, away from the corpus."""
    kept.corpus_home = lambda _: folder
    ablation_folder.corpus_home = lambda _: folder
    cli.main(["ablate", str(GRID), "--jobs", "1"])
    with Lab.open() as lab:
        for hour, (name, config) in enumerate(RUNS.items(), start=8):
            made = replace(run(lab, config), name=name, created=f"2026-11-30T{hour:02}:00:00+00:00")
            made.save(kept.resolve_run(name, lab.corpus))


async def main() -> None:
    # The pictures are the same for everybody, and leave nobody with another theme.
    preferences.read_theme = lambda: None
    preferences.write_theme = lambda _: None
    preferences.read_keymap = lambda _: ({}, ())
    cited.usual_answerer = Extractive
    for picture in PICTURES:
        app = ExplorerApp()
        async with app.run_test(size=picture.size) as pilot:
            await _step_to(pilot, app, picture.query_id)
            await _until(pilot, lambda app=app: app.measuring.measured is not None)
            await pilot.press(*picture.keys)
            await pilot.pause(6)  # for an answer, for rescues, or for lists that are fitted first, that a key asked for
            await _until(pilot, lambda app=app: app.measuring.measured is not None)
            svg = WEB_FONT.sub("", app.export_screenshot(title="retrieval lab"))
        app.close_lab()
        path = FOLDER / f"{picture.name}.svg"
        path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
        print(path)


async def _step_to(pilot: Pilot[None], app: ExplorerApp, query_id: str) -> None:
    while True:
        answer = app.explore.answer
        if answer is not None and answer.question.golden is not None and answer.question.golden.query_id == query_id:
            return
        if answer is not None:
            await pilot.press("n")
        while app.explore.answer is answer:
            await pilot.pause(0.02)


async def _until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    while not condition():
        await pilot.pause(0.02)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _keep_runs(Path(folder))
        asyncio.run(main())
