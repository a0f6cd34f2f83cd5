"""The labs of one corpus that are open: one for each way of indexing it, so that switching back takes no time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from retrieval_lab.config import Indexing, PipelineConfig
from retrieval_lab.index import Progress
from retrieval_lab.lab import Lab

OpenLab = Callable[..., Lab]
Opener = Callable[[PipelineConfig | None, Callable[[Progress], None], Callable[[], bool]], Lab]
"""Opens the corpus with a configuration, None for its own; hears of progress, and whether to stop."""

_EARLIER = 6
_PROBE = "ready"


@dataclass(frozen=True, slots=True)
class Served:
    """A configuration, with the lab whose index serves it."""

    lab: Lab
    config: PipelineConfig


class Labs:
    """What is open of one corpus: `file` is the file's configuration served, `now` that of the moment.

    Both are None until the corpus is open. `earlier` are the configurations of before, the newest first, without the
    one of the moment. `names` are those of the configurations that were chosen by name.
    """

    def __init__(
        self,
        opener: Opener,
        earlier: tuple[PipelineConfig, ...] = (),
        names: Mapping[PipelineConfig, str] = MappingProxyType({}),
    ) -> None:
        self.file: Served | None = None
        self.now: Served | None = None
        self.earlier = earlier
        self.names = dict(names)
        self._opener = opener
        self._open: dict[Indexing, Lab] = {}
        self._changing = threading.Lock()
        self._closed = False

    @property
    def live(self) -> bool:
        """Whether the settings of the moment are others than the file's."""
        return self.now is not None and self.file is not None and self.now.config != self.file.config

    @property
    def name(self) -> str | None:
        """The name by which the configuration of the moment was chosen; None once it is another."""
        return None if self.now is None else self.names.get(self.now.config)

    def serving(self, config: PipelineConfig) -> Served | None:
        """The configuration with the open lab that serves it, None where its index is not open."""
        lab = self._open.get(config.indexing)
        return None if lab is None else Served(lab, config)

    def open(
        self, config: PipelineConfig | None, progress: Callable[[Progress], None], cancelled: Callable[[], bool]
    ) -> Served:
        """The configuration served, with its index made and its model loaded where that was not yet; takes its time.

        None stands for the configuration of the corpus. Raises as `Lab.open` and the embedder do.
        """
        found = None if config is None else self.serving(config)
        if found is not None:
            return found
        lab = self._opener(config, progress, cancelled)
        try:
            if config is not None:
                lab.embedder.embed([_PROBE])  # an index from before needs its model for the first question only
        except BaseException:
            let_go(lab)
            raise
        return Served(self._keep(lab), config or lab.config)

    def _keep(self, lab: Lab) -> Lab:
        """The lab, or the one that was opened for this index meanwhile; one too many is closed."""
        with self._changing:
            kept = lab if self._closed else self._open.setdefault(lab.config.indexing, lab)
            is_unwanted = self._closed or kept is not lab
        if is_unwanted:
            let_go(lab)
        return kept

    def use(self, served: Served) -> None:
        """Make this the configuration of the moment, and the first one the file's."""
        if self.now is not None and self.now.config != served.config:
            others = (one for one in self.earlier if one not in (self.now.config, served.config))
            self.earlier = (self.now.config, *others)[:_EARLIER]
        self.now = served
        self.file = self.file or served

    def save(self) -> Path:
        """Write the configuration of the moment as the corpus's own, which it is from now on; the file's path.

        Raises as `Lab.save_config` does.
        """
        if self.now is None:
            raise RuntimeError("nothing is open")
        path = self.now.lab.save_config(self.now.config)
        for lab in self.all:
            lab.read_config()
        self.file = self.now
        return path

    @property
    def all(self) -> tuple[Lab, ...]:
        """Every lab that is open."""
        with self._changing:
            return tuple(self._open.values())

    def changed_files(self) -> tuple[Path, ...]:
        """The files of the corpus that changed since any of the labs read them; any thread."""
        return tuple(sorted({path for lab in self.all for path in lab.changed_files()}))

    def close(self) -> None:
        """Let go of all labs, and of each one that is still being opened when it comes; waits for the server."""
        with self._changing:
            self._closed = True
            labs, self._open = list(self._open.values()), {}
        for lab in labs:
            let_go(lab)


def let_go(lab: Lab) -> None:
    """Stop what a lab does, and close it."""
    lab.cancel()
    lab.close()
