"""Choosing the support floor: by trying every one, by hand, and on the bundled corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.evals.calibration import FOLDS, Measured, best_floor, calibrate, calibrated
from retrieval_lab.evals.calibration_text import calibration_lines
from retrieval_lab.evals.off_corpus import off_corpus_path, read_questions
from retrieval_lab.lab import Lab

SHARES = st.lists(st.integers(0, 20).map(lambda number: number / 20), min_size=1, max_size=30)


def measured(values: list[float], name: str | None = None) -> list[Measured]:
    return [Measured(f"question {place}", value, name) for place, value in enumerate(values)]


def judged(golden: list[float], others: list[float], floor: float) -> tuple[int, int]:
    return sum(one < floor for one in golden), sum(one < floor for one in others)


def test_two_sets_that_lie_apart_are_parted_in_the_middle_of_the_gap() -> None:
    assert best_floor([0.5, 0.6, 0.9], [0.0, 0.1, 0.3]) == 0.4


def test_a_floor_may_refuse_some_golden_queries_for_more_others() -> None:
    golden, others = [0.1, *[0.8] * 19], [0.2, 0.2, 0.5]
    assert best_floor(golden, others, 0.05) == 0.65
    assert best_floor(golden, others, 0.0) == 0.0  # every floor that refuses another refuses the first golden query


@given(SHARES, SHARES, st.sampled_from([0.0, 0.05, 0.2, 1.0]))
def test_no_other_floor_is_better(golden: list[float], others: list[float], most_refused: float) -> None:
    floor = best_floor(golden, others, most_refused)
    lost, kept_out = judged(golden, others, floor)
    assert lost <= most_refused * len(golden)
    for number in range(201):
        other_lost, other_kept_out = judged(golden, others, number / 200)
        if other_lost <= most_refused * len(golden):
            assert (kept_out, -lost) >= (other_kept_out, -other_lost)


def test_errors_are_those_on_the_part_that_was_left_out() -> None:
    golden, others = [0.9] * 9 + [0.1], [0.0] * 9 + [0.95]
    found = calibrated(measured(golden, "q"), measured(others), most_refused=0.2)
    # The odd golden query is refused by the floor of the other parts, the odd other question passes it.
    assert (found.refused.count, found.refused.of) == (1, 10)
    assert (found.answered.count, found.answered.of) == (1, 10)
    assert found.floor == 0.05  # the highest that refuses as many others, and no golden query


def test_too_few_questions_are_told() -> None:
    few, enough = measured([0.5] * 9), measured([0.5] * 10)
    with pytest.raises(InputError, match="9 off-corpus questions; expected at least 10"):
        calibrated(enough, few)
    with pytest.raises(InputError, match="9 golden queries"):
        calibrated(few, enough)
    with pytest.raises(InputError, match="is 2; expected 0 to 1"):
        calibrated(enough, enough, most_refused=2)


def test_the_lines_show_every_question_and_the_floor_once() -> None:
    golden, others = [0.31, 0.5, *[1.0] * 10], [0.0, 0.05, *[0.2] * 10]
    found = calibrated(measured(golden, "q"), measured(others))
    lines = list(calibration_lines(found, 80))
    assert max(map(len, lines)) <= 80 + len(" ◂ floor")
    rows = [line for line in lines if "–" in line and "of" not in line]
    assert sum("◂ floor" in line for line in lines) == 1
    middles = [line.partition("–")[0].split()[-2:] + line.partition("–")[2].split()[1:2] for line in rows]
    assert any("10" in middle for middle in middles)
    assert "off-corpus questions answered" in "\n".join(lines)


# --- the questions -------------------------------------------------------------------------------------------------


def test_questions_are_lines_without_comments(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("\ufeff# other things\n\n How old is the Moon? \nWhy?\r\n", encoding="utf-8")
    assert read_questions(path) == ["How old is the Moon?", "Why?"]


def test_all_faults_of_the_questions_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("Why?\n!!!\nwhy?\n", encoding="utf-8")
    with pytest.raises(FaultyInput) as caught:
        read_questions(path)
    assert str(caught.value).splitlines() == [
        f"{path}:2: a question without words",
        f"{path}:3: the question of line 1 again",
    ]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_questions(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match="not UTF-8: byte 0xe9"):
        read_questions(tmp_path / "latin.txt")


def test_a_corpus_may_have_questions_of_its_own(tmp_path: Path, corpus_dir: Path) -> None:
    assert off_corpus_path(tmp_path) == corpus_dir / "off_corpus.txt"
    (tmp_path / "off_corpus.txt").write_text("Why?\n", encoding="utf-8")
    assert off_corpus_path(tmp_path) == tmp_path / "off_corpus.txt"
    assert len(read_questions(corpus_dir / "off_corpus.txt")) == 24


# --- the bundled corpus --------------------------------------------------------------------------------------------

# Ordinary questions of two authors; the first twenty were written when the measure was fixed, the others before that.
UNSEEN = """
What should I feed a hedgehog that I found in the garden?
How do I get candle wax out of a carpet?
Who was the first woman to fly across the Atlantic alone?
Which muscles does rowing train the most?
How long can cooked rice be kept in the fridge?
What is the legal drinking age in Germany?
How do I remove a splinter from a child's finger?
When do the clocks go back in autumn?
Why do onions make people cry when they are cut?
How do I renew a passport that has expired?
What is a fair price for a used piano?
How tall was the largest dinosaur?
Which train goes from Zurich to Milan through the old tunnel?
How do I descale an electric kettle with vinegar?
What are the ingredients of a classic Margherita pizza?
How do I stop a dog from barking at the postman?
Which country has the most islands in the world?
How do I choose running shoes for flat feet?
What is the difference between a violin and a viola?
How many litres of blood does the human body hold?
""".strip().splitlines()
OTHERS = """
how do I bake a sourdough bread at home?
what is the capital of Australia?
how many players are on a football team?
who won the world cup in 2014?
what is the best way to remove a red wine stain from a carpet?
how often should I change the oil in my car?
which vitamins are in an orange?
how does photosynthesis work?
what causes thunder and lightning?
how do I file my taxes as a freelancer?
what time does the supermarket close on Sundays?
who wrote the music for Star Wars?
can dogs eat chocolate?
how tall is Mount Everest?
what are the symptoms of the flu?
how do I train for a marathon in three months?
why is the sky blue during the day and red at sunset?
how do I set up a wireless printer on my laptop?
what is the difference between a crocodile and an alligator?
where can I rent a bike in Amsterdam for a week?
""".strip().splitlines()


def test_most_golden_queries_pass_the_floor_and_most_other_questions_do_not(corpus_dir: Path) -> None:
    with Lab.open(corpus_dir) as lab:
        found = calibrate(lab, read_questions(corpus_dir / "off_corpus.txt"))
        asked = [calibrate(lab, questions).others for questions in (UNSEEN, OTHERS)]
    for floor in (0.25, found.floor):
        assert sum(one.support < floor for one in found.golden) <= 3
        for others in asked:
            assert len(others) == 20
            assert sum(one.support < floor for one in others) >= 17
    assert found.refused.count <= 3
    assert len(found.golden) == 48
    assert FOLDS == 5


def test_a_golden_query_is_no_off_corpus_question(corpus_dir: Path) -> None:
    with Lab.open(corpus_dir) as lab, pytest.raises(InputError, match="is the golden query q33, too"):
        calibrate(lab, ["anchorerror  rlab-4309"])
