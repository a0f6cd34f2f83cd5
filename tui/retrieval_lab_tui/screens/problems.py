"""What is wrong with the files of the corpus, fault by fault."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from retrieval_lab_tui.display import safe
from retrieval_lab_tui.screens.dialog import Dialog


class ProblemsScreen(Dialog):
    """Lists the faults that the index and the golden set met."""

    def __init__(self, problems: Sequence[str]) -> None:
        if problems:
            parts = [Content.assemble(("• ", "bold $warning"), safe(problem)) for problem in problems]
            parts.append(Content("Mend the files, then press r to open the corpus again."))
        else:
            parts = [Content("All files of this corpus were read and indexed.")]
        super().__init__("Problems", Content("\n\n").join(parts))
