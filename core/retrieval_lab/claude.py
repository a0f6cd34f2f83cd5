"""One question to Claude through claude-agent-sdk (extra `claude`): a whole reply, or an error that says what to do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from retrieval_lab.claude_login import LOGIN_MEND
from retrieval_lab.errors import AnswererMissing, AnswerError, Cancelled
from retrieval_lab.extras import MissingExtra, require

MODEL = "claude-opus-5-5"
BUDGET_USD = 0.05

SILENCE_SECONDS = 120.0
"""After so long without a message nobody is expected to speak: without a network the SDK tries for many minutes."""

_POLL_SECONDS = 0.1
_STOPPED = "stopped before the answer was whole"

_BROKEN_OFF = "the reply broke off before it was whole: ask again"
_SILENT = f"nothing was heard of Claude for {SILENCE_SECONDS:.0f} seconds: check the network, then ask again"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply and what it cost, 0.0 where the SDK does not say."""

    text: str
    cost_usd: float


def ask(
    prompt: str,
    *,
    query_fn: Callable[..., Any] | None = None,
    model: str | None = None,
    heard: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Reply:
    """The reply to the prompt, without tools, settings or servers of the user. Arguments and errors as `answer.run`."""
    try:
        sdk = require("claude_agent_sdk", extra="claude")
    except MissingExtra as error:
        raise AnswererMissing(str(error)) from error
    options = sdk.ClaudeAgentOptions(
        tools=[],
        max_turns=1,
        setting_sources=[],
        max_budget_usd=BUDGET_USD,
        strict_mcp_config=True,
        model=model or MODEL,
        **({} if heard is None else {"include_partial_messages": True}),
    )
    given_up = threading.Event()

    def stopped() -> bool:
        return given_up.is_set() or (cancelled is not None and cancelled())

    if stopped():
        raise Cancelled(_STOPPED)
    listener = _Listener(sdk, heard or (lambda _text: None), stopped)
    return _synchronously(lambda: listener.reply((query_fn or sdk.query)(prompt=prompt, options=options)), given_up.set)


def _synchronously(work: Callable[[], Coroutine[Any, Any, T]], give_up: Callable[[], None]) -> T:
    """What the work returns, in a loop of its own, and where this thread has one already in a thread of its own.

    `give_up` must make the work end: it is called when this thread is interrupted while it waits for the other.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1, thread_name_prefix="answer") as pool:
        running = pool.submit(lambda: asyncio.run(work()))
        try:
            return running.result()
        except BaseException:
            give_up()
            raise


class _Listener:
    """Follows the messages of one call to their end."""

    def __init__(self, sdk: Any, heard: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        self._sdk = sdk
        self._heard = heard
        self._stopped = stopped
        self._text = ""
        self._streamed = ""
        self._last_heard = time.monotonic()

    async def reply(self, messages: AsyncGenerator[Any, None]) -> Reply:
        """The reply once it is whole. Raises as `ask` does; the generator is closed in the task that ran it."""
        listening = asyncio.ensure_future(self._listen(messages))
        try:
            while not (await asyncio.wait({listening}, timeout=_POLL_SECONDS))[0]:
                self._go_on()
                if time.monotonic() - self._last_heard > SILENCE_SECONDS:
                    raise AnswerError(_SILENT)
            if listening.cancelled():
                raise AnswerError(_BROKEN_OFF)
            return listening.result()
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await listening

    async def _listen(self, messages: AsyncGenerator[Any, None]) -> Reply:
        async with aclosing(messages):
            while True:
                message = await self._next(messages)
                self._last_heard = time.monotonic()
                self._go_on()
                if isinstance(message, self._sdk.ResultMessage):
                    return self._whole(message)
                if isinstance(message, self._sdk.AssistantMessage):
                    self._take(message)
                elif isinstance(message, self._sdk.StreamEvent):
                    self._stream(message.event)

    def _go_on(self) -> None:
        if self._stopped():
            raise Cancelled(_STOPPED)

    async def _next(self, messages: AsyncGenerator[Any, None]) -> Any:
        try:
            return await anext(messages)
        except StopAsyncIteration:
            raise AnswerError(_BROKEN_OFF) from None
        except Exception as error:  # the SDK raises plain exceptions, too
            raise _translated(self._sdk, error) from error

    def _take(self, message: Any) -> None:
        """Keep the text of a whole message; its thoughts are no part of the answer."""
        if error := _of(message, "error"):
            raise _failure(kind=error, said=self._text_of(message))
        _refuse_half(message)
        self._text += self._text_of(message)
        if not self._streamed.startswith(self._text):
            self._streamed = self._text
            self._heard(self._streamed)

    def _text_of(self, message: Any) -> str:
        return "".join(block.text for block in message.content if isinstance(block, self._sdk.TextBlock))

    def _stream(self, event: dict[str, Any]) -> None:
        delta = event.get("delta") or {}
        if event.get("type") == "content_block_delta" and delta.get("type") == "text_delta" and delta.get("text"):
            self._streamed += delta["text"]
            self._heard(self._streamed)

    def _whole(self, result: Any) -> Reply:
        if result.is_error or result.subtype != "success":
            raise _failure(kind=result.subtype, said=_said(result), status=_of(result, "api_error_status"))
        if str(_of(result, "terminal_reason")).startswith("aborted"):
            raise AnswerError(_BROKEN_OFF)
        _refuse_half(result)
        if not self._text.strip():
            raise AnswerError("the reply was empty: ask again, or in other words")
        return Reply(self._text.strip(), float(result.total_cost_usd or 0.0))


def _of(message: Any, name: str) -> Any:
    """A field that older versions of the SDK do not have."""
    return getattr(message, name, None)


def _said(result: Any) -> str:
    return "; ".join([*(_of(result, "errors") or []), *filter(None, [result.result])])


def _refuse_half(message: Any) -> None:
    reason = _of(message, "stop_reason")
    if reason == "max_tokens":
        raise AnswerError("the reply was cut off at the longest that the model gives: ask a narrower question")
    if reason == "refusal":
        raise AnswerError("Claude declined to answer: ask in other words, or take another model")


_LOGIN_STATUS = (401, 403)
_KINDS = {
    "error_max_budget_usd": f"the answer would cost more than its budget of ${BUDGET_USD:.2f}: give it fewer sources",
    "error_max_turns": "Claude wanted more than the one turn that an answer has: ask again, or in other words",
    "billing_error": "Claude's account cannot pay for the answer: see to its credit",
    "rate_limit": "Claude's rate limit is reached: wait a few minutes and ask again",
    "invalid_request": "Claude does not accept the request: check the model's name, and give it fewer sources",
    "server_error": "Claude's servers fail or are overloaded: wait a minute and ask again",
}
_STATUS = {400: "invalid_request", 402: "billing_error", 404: "invalid_request", 413: "invalid_request"}


def _failure(*, kind: str, said: str = "", status: int | None = None) -> AnswerError:
    """The error for what the SDK calls `kind`, or for the HTTP status where that is more exact; `said` is quoted."""
    if status is not None and kind not in _KINDS:
        kind = _kind_of(status)
    if kind == "authentication_failed" or "/login" in said:
        return AnswererMissing(f"Claude does not accept the login{_quoted(said)}: {LOGIN_MEND}")
    what, _, mend = _KINDS.get(kind, "Claude could not answer: ask again").partition(": ")
    return AnswerError(f"{what}{_quoted(said)}: {mend}")


def _kind_of(status: int) -> str:
    if status in _LOGIN_STATUS:
        return "authentication_failed"
    if status == 429:
        return "rate_limit"
    return "server_error" if status >= 500 else _STATUS.get(status, "unknown")


def _quoted(said: str) -> str:
    line = " ".join(said.split())[:200]
    return f" ({line})" if line else ""


def _translated(sdk: Any, error: Exception) -> AnswerError:
    """The error for an exception of the SDK."""
    if isinstance(error, sdk.CLINotFoundError):
        mend = "install it with: npm install -g @anthropic-ai/claude-code"
        return AnswererMissing(f"the program of Claude Code is not there{_quoted(str(error))}: {mend}")
    if isinstance(error, getattr(sdk, "ResultError", ())):
        result: Any = error
        return _failure(kind=str(result.subtype), said=_said(result) or str(error), status=result.api_error_status)
    if isinstance(error, sdk.ProcessError):
        said = error.stderr or str(error)
        return _failure(kind="unknown", said=f"its program ended with exit code {error.exit_code}: {said}")
    return _failure(kind="unknown", said=f"{type(error).__name__}: {error}")
