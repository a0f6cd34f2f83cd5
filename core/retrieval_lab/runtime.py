"""One model of fastembed's, loaded when it is first run, its tokenizer when tokens are first counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from retrieval_lab.folder_models import FolderModel, load_folder, run_chars
from retrieval_lab.models import RUN_CHARS, load_model, runs, tokenizer_of
from retrieval_lab.windows import TokenCounter


class ModelRuntime:
    """A model by its name in fastembed's list, or that of a folder."""

    def __init__(
        self, module: str, kind: str, model: str, cache_dir: Path, folder: Callable[[], FolderModel | None], sample: Any
    ) -> None:
        """`module.kind` is fastembed's class, `sample` anything that it takes; `folder` is asked when it is loaded."""
        self._class = (module, kind)
        self._name = model
        self._cache_dir = cache_dir
        self._folder = folder
        self._sample = sample
        self._made: Any = None
        self._run_chars = RUN_CHARS

    @property
    def made(self) -> Any:
        """The instance of fastembed's class. Raises as `models.load_model` or `folder_models.load_folder` does."""
        if self._made is None:
            self._made = self._load()
            found = self._folder()
            self._run_chars = run_chars(None if found is None else found.folder)
        return self._made

    def apply(self, call: Callable[[Any, list[str]], Any], texts: Sequence[str]) -> list[Any]:
        """What `call` makes of the instance and each text, in their order; texts of like length are run together."""
        made = self.made
        results: list[Any] = [None] * len(texts)
        for rows in runs(texts, self._run_chars):
            for row, result in zip(rows, call(made, [texts[row] for row in rows]), strict=True):
                results[row] = result
        return results

    @cached_property
    def tokens(self) -> TokenCounter:
        """Counts tokens without the graph, and fetches nothing. Raises as `made`."""
        made = self._made if self._made is not None else self._load(lazy=True)
        return TokenCounter(tokenizer_of(made, self._sample))

    def _load(self, *, lazy: bool = False) -> Any:
        found = self._folder()
        if found is not None:
            return load_folder(*self._class, found, lazy=lazy)
        options: dict[str, Any] = {"fetch": False, "lazy_load": True} if lazy else {}
        return load_model(*self._class, self._name, self._cache_dir, **options)
