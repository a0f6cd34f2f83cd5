"""Only the newest job of a kind counts, and a failing job is a message like any other."""

from __future__ import annotations

import threading
from queue import Queue

from textual.message import Message

from retrieval_lab_tui.jobs import Finished, Jobs


def finished(inbox: Queue[Message]) -> Finished:
    message = inbox.get(timeout=5)
    assert isinstance(message, Finished)
    return message


def test_a_result_comes_back() -> None:
    inbox: Queue[Message] = Queue()
    jobs = Jobs(inbox.put)
    jobs.start("ask", lambda: 42)
    done = finished(inbox)
    assert jobs.running("ask")
    assert jobs.accept(done)
    assert (done.result, done.error, jobs.running("ask")) == (42, None, False)


def test_an_error_comes_back() -> None:
    inbox: Queue[Message] = Queue()
    jobs = Jobs(inbox.put)
    jobs.start("ask", lambda: 1 / 0)
    done = finished(inbox)
    assert jobs.accept(done)
    assert isinstance(done.error, ZeroDivisionError)


def test_an_older_result_is_dropped_even_when_it_comes_last() -> None:
    inbox: Queue[Message] = Queue()
    jobs = Jobs(inbox.put)
    gate = threading.Event()
    jobs.start("ask", lambda: gate.wait(5) and "old")
    jobs.start("ask", lambda: "new")
    assert jobs.accept(finished(inbox))
    gate.set()
    assert not jobs.accept(finished(inbox))


def test_kinds_do_not_disturb_each_other_and_a_dropped_job_is_not_wanted() -> None:
    inbox: Queue[Message] = Queue()
    jobs = Jobs(inbox.put)
    jobs.start("open", lambda: "lab")
    first = finished(inbox)
    jobs.start("ask", lambda: "answer")
    second = finished(inbox)
    jobs.drop("ask")
    assert jobs.accept(first)
    assert not jobs.accept(second)
