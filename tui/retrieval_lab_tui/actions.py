"""What the explorer can do: one list that feeds the key bindings, the footer, the help screen and the palette."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType
from textual.keys import format_key


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does.

    `name` is the action as Textual runs it from the screen and `keys` are Textual's key names; `label` stands in the
    footer when `footer` is set.
    """

    name: str
    keys: str
    label: str
    description: str
    footer: bool = True

    def binding(self) -> Binding:
        return Binding(self.keys, self.name, self.label, tooltip=self.description, show=self.footer, id=self.name)


_NTH = tuple(f"Go to the {nth} list" for nth in ("first", "second", "third", "fourth", "fifth", "sixth"))

EXPLORE = (
    Action("focus_query", "slash", "Query", "Write a question"),
    Action("app.next_golden", "n", "Next", "Next golden query"),
    Action("app.previous_golden", "p,N", "Previous", "Previous golden query", footer=False),
    Action("app.next_miss", "m", "Miss", "Next miss: a golden query whose passage is not in the final list"),
    Action("app.previous_miss", "M", "Previous miss", "Previous miss", footer=False),
    Action("app.pick", "f", "Find", "Find a golden query by typing, by kind, or among the misses"),
    *(
        Action(f"show_list({place})", str(place + 1), f"List {place + 1}", _NTH[place], footer=False)
        for place in range(6)
    ),
    Action("step_list(-1)", "left,h", "List left", "Go to the list on the left", footer=False),
    Action("step_list(1)", "right,l", "List right", "Go to the list on the right", footer=False),
    Action("app.settings", "s", "Settings", "Change the pipeline and see what moves"),
    Action("app.measures", "e", "Measures", "The measures of the golden set with their intervals"),
    Action("app.file_settings", "u", "File's settings", "Back to the settings of the file", footer=False),
    Action("read", "enter", "Read", "Read the passage under the cursor"),
    Action("read_wanted", "w", "Wanted", "Read the wanted passage, wherever it stands", footer=False),
    Action("neighbour(-1)", "left_square_bracket", "Chunk before", "Read the chunk before this passage", footer=False),
    Action("neighbour(1)", "right_square_bracket", "Chunk after", "Read the chunk after this passage", footer=False),
    Action("app.copy_id", "y", "Copy id", "Copy the id of the chunk under the cursor", footer=False),
    Action("app.copy_passage", "Y", "Copy passage", "Copy the text of the chunk under the cursor", footer=False),
    Action("app.copy_trace", "t", "Copy trace", "Copy the whole trace as JSON", footer=False),
    Action("app.back_out", "escape", "Back", "Stop the query, undo typing, back to the lists"),
    Action("app.again", "r", "Again", "Open the corpus again, and ask again", footer=False),
    Action("app.problems", "exclamation_mark", "Problems", "What is wrong with the corpus's files", footer=False),
    Action("app.help", "question_mark,f1", "Help", "All keys"),
    Action("app.quit", "q", "Quit", "Leave the explorer"),
)

MOVES = (
    Action("move(-1)", "up,k", "Up", "One row up", footer=False),
    Action("move(1)", "down,j", "Down", "One row down", footer=False),
    Action("page(-1)", "pageup,ctrl+u", "Page up", "One page up", footer=False),
    Action("page(1)", "pagedown,ctrl+d", "Page down", "One page down", footer=False),
    Action("edge(-1)", "home,g", "First", "First row", footer=False),
    Action("edge(1)", "end,G", "Last", "Last row", footer=False),
)

SCROLLS = (
    Action("scroll_up", "up,k", "Scroll up", "One line up", footer=False),
    Action("scroll_down", "down,j", "Scroll down", "One line down", footer=False),
)


def shown_keys(action: Action) -> str:
    """The action's keys as a person reads them."""
    return ", ".join(format_key(key) for key in action.keys.split(","))


def bindings(actions: tuple[Action, ...]) -> list[BindingType]:
    """Textual's bindings for the actions, in their order."""
    return [action.binding() for action in actions]
