"""The options with which every command is told its pipeline: a file, parts by name, and single settings."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_completion import complete_config, complete_setting
from retrieval_lab.errors import InputError
from retrieval_lab.paths import bundled_configs, bundled_corpus

if TYPE_CHECKING:
    from retrieval_lab.config_file import EffectiveConfig, Override
    from retrieval_lab.offline import IndexSource
    from retrieval_lab.settings import EmbedderSettings

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE|NAME",
        autocompletion=complete_config,
        help="A configuration file instead of the corpus's lab.yaml, or the name of one that `config list` shows.",
    ),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option("--embedder", metavar="NAME", help="hash, fastembed:MODEL, or the folder of a model's files."),
]
RerankerOption = Annotated[
    str | None,
    typer.Option(
        "--reranker", metavar="NAME", help="none, lexical, cross-encoder:MODEL, learned:FILE, or the folder of a model."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=complete_setting,
        help="Change one setting, such as top_k=20 or reranker=none; may be repeated. `config show` lists the keys.",
    ),
]


@dataclass(frozen=True, slots=True)
class PipelineChoice:
    """What the options of a command say about its pipeline; the corpus's own lab.yaml says the rest.

    `path` is a file, or the bare name of a configuration that is shipped or lies beside the corpus.
    """

    path: Path | None = None
    embedder: str | None = None
    reranker: str | None = None
    overrides: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the options change what the file says."""
        return bool(self.embedder or self.reranker or self.overrides)

    def with_setting(self, override: str) -> PipelineChoice:
        """The choice with one setting more, written KEY=VALUE."""
        return replace(self, overrides=(*self.overrides, override))

    def file(self, corpus: Path | None) -> Path | None:
        """The configuration file that is meant, for this corpus or the bundled one; None for the corpus's lab.yaml.

        A file wins over a name. Raises InputError for a name that there is not.
        """
        if self.path is None or self.path.suffix or len(self.path.parts) != 1 or self.path.is_file():
            return self.path
        from retrieval_lab.configurations import path_of

        return path_of(self.path.name, corpus or bundled_corpus())

    def is_shipped(self, corpus: Path | None) -> bool:
        """Whether the file is one that comes with the lab, which nothing is written into. Raises as `file` does."""
        path = self.file(corpus)
        return path is not None and path.resolve().parent == bundled_configs().resolve()

    def configured(self, corpus: Path | None) -> EffectiveConfig:
        """The configuration that is meant, for this corpus or the bundled one. Raises InputError."""
        from retrieval_lab.config_file import effective_config

        overrides: list[str | Override] = [*self._parts(), *self.overrides]
        return effective_config(corpus or bundled_corpus(), path=self.file(corpus), overrides=overrides)

    def on_index(self, folder: Path, corpus: Path | None, golden: Path | None = None) -> IndexSource:
        """An index with the pipeline that is meant over it, and whose labels there are. Raises InputError."""
        from retrieval_lab.offline import IndexSource

        others = (one for one in self._parts() if one.key != "embedder")  # the index has the one of its name
        return IndexSource(
            folder, corpus, golden, self.chosen_embedder(), self.file(corpus), (*others, *self.overrides)
        )

    def chosen_embedder(self) -> EmbedderSettings | None:
        """The embedder that is named, None without a name. Raises InputError."""
        from retrieval_lab.config import PipelineConfig
        from retrieval_lab.model_choice import embedder_setting

        if self.embedder is None:
            return None
        return PipelineConfig.from_dict({"embedder": embedder_setting(self.embedder)}).embedder

    def _parts(self) -> Iterator[Override]:
        from retrieval_lab.config_file import Override
        from retrieval_lab.model_choice import embedder_setting, reranker_setting

        named = (("embedder", self.embedder, embedder_setting), ("reranker", self.reranker, reranker_setting))
        for key, text, setting in named:
            if text is None:
                continue
            try:
                yield Override(f"--{key}", key, setting(text))
            except InputError as error:
                raise InputError(f"--{key}: {error}") from error


UNCHANGED = PipelineChoice()
_OPTIONS = {"config": ConfigOption, "embedder": EmbedderOption, "reranker": RerankerOption, "overrides": SetOption}


def takes_pipeline(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the four options in the place of its parameter `choice`, a PipelineChoice.

    Typer makes options of a signature; so the signature that it sees is the one with the options.
    """
    signature = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=option)
        for name, option in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def with_choice(**given: Any) -> None:
        config, embedder, reranker, overrides = (given.pop(name) for name in _OPTIONS)
        command(choice=PipelineChoice(config, embedder, reranker, tuple(overrides or ())), **given)

    parameters = []
    for name, parameter in signature.parameters.items():
        parameters += options if name == "choice" else [parameter]
    with_choice.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_choice.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_choice
