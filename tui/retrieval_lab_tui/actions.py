"""What the explorer can do: one registry that feeds the key bindings, the footer, the help screen and the palette."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from textual.binding import Binding, BindingType
from textual.keys import format_key

Keymap = Mapping[str, str]
"""Other keys for actions, by their ids; keys are parted by commas."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does.

    `id` names it in a keymap, `keys` are Textual's key names, and `run` is the action as Textual runs it. `label`
    stands in the footer when `footer` is set.
    """

    id: str
    keys: str
    label: str
    description: str
    run: str
    footer: bool = False

    def binding(self) -> Binding:
        return Binding(self.keys, self.run, self.label, tooltip=self.description, show=self.footer, id=self.id)


_NTH = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

EXPLORE = (
    Action("query", "slash", "Query", "Write a question", "focus_query", footer=True),
    Action("next_golden", "n", "Next", "Next golden query", "app.step_golden(1)"),
    Action("previous_golden", "p,N", "Previous", "Previous golden query", "app.step_golden(-1)"),
    Action(
        "next_miss",
        "m",
        "Miss",
        "Next query whose passage is not in Final",
        "app.step_miss(1)",
        footer=True,
    ),
    Action("previous_miss", "M", "Previous miss", "Previous miss", "app.step_miss(-1)"),
    Action("explain", "x", "Why", "Why the wanted passage was lost, what rescues it", "app.explain", footer=True),
    Action("analysis", "a", "Analysis", "All misses: where each was lost, judgments", "app.analysis", footer=True),
    Action("answer", "A", "Answer", "Answer the question, with citations", "app.answer"),
    Action("find", "f", "Find", "Find a golden query by words, kind or miss", "app.pick"),
    *(
        Action(f"list_{place}", str(place % 10), f"List {place}", f"Go to the {nth} list", f"show_list({place - 1})")
        for place, nth in enumerate(_NTH, start=1)
    ),
    Action("list_left", "left,h", "List left", "Go to the list on the left", "step_list(-1)"),
    Action("list_right", "right,l", "List right", "Go to the list on the right", "step_list(1)"),
    Action("settings", "s", "Settings", "Change the pipeline and see what moves", "app.settings", footer=True),
    Action("configurations", "c", "Configurations", "Another pipeline by name, on this question", "app.configurations"),
    Action("file_settings", "u", "File's settings", "Back to the settings of the file", "app.file_settings"),
    Action(
        "measures",
        "e",
        "Measures",
        "Measures of the golden set, intervals, runs",
        "app.measures",
        footer=True,
    ),
    Action("runs", "R", "Runs", "Kept runs, and one against another", "app.runs"),
    Action("ablation", "b", "Ablation", "An ablation's configurations, best first", "app.ablation"),
    Action("compare_sides", "C", "Compare", "Compare with another reranker or embedder", "app.compare"),
    Action("explain_chunk", "X", "Why this one", "The same of the chunk under the cursor", "app.explain_chunk"),
    Action("operators", "O", "Operators", "Full text with or without operators", "app.toggle_operators"),
    Action("read", "enter", "Read", "Read the passage under the cursor", "read"),
    Action("read_wanted", "w", "Wanted", "Read the wanted passage", "read_wanted"),
    Action("chunk_before", "left_square_bracket", "Chunk before", "Read the chunk before it", "neighbour(-1)"),
    Action("chunk_after", "right_square_bracket", "Chunk after", "Read the chunk after it", "neighbour(1)"),
    Action("edit", "o", "Open file", "Open the file in $EDITOR at the line", "app.edit"),
    Action("copy_id", "y", "Copy id", "Copy the chunk's id", "app.copy_id"),
    Action("copy_passage", "Y", "Copy passage", "Copy the passage", "app.copy_passage"),
    Action("copy_trace", "t", "Copy trace", "Copy the whole trace as JSON", "app.copy_trace"),
    Action("copy_markdown", "T", "Copy as Markdown", "Copy the trace as Markdown", "app.copy_markdown"),
    Action("picture", "P", "Picture", "Save the screen as SVG in this folder", "app.picture"),
    Action("dark", "d", "Dark or light", "Dark or light screen", "app.toggle_dark"),
    Action("back", "escape", "Back", "Stop what runs, undo typing, to the lists", "app.back_out"),
    Action("again", "r", "Again", "Read the files again, and ask again", "app.again"),
    Action("problems", "exclamation_mark", "Problems", "What is wrong with the corpus's files", "app.problems"),
    Action("help", "question_mark,f1", "Help", "All keys", "app.help", footer=True),
    Action("palette", "ctrl+p", "Palette", "Every action by name, and the themes", "app.palette"),
    Action("quit", "q,ctrl+q", "Quit", "Leave the explorer", "app.quit", footer=True),
)

LIST = (
    Action("row_up", "up,k", "Up", "One row up", "move(-1)"),
    Action("row_down", "down,j", "Down", "One row down", "move(1)"),
    Action("page_up", "pageup,ctrl+u", "Page up", "One page up", "page(-1)"),
    Action("page_down", "pagedown,ctrl+d", "Page down", "One page down", "page(1)"),
    Action("first_row", "home,g", "First", "First row", "edge(-1)"),
    Action("last_row", "end,G", "Last", "Last row", "edge(1)"),
)

PASSAGE = (
    Action("scroll_up", "up,k", "Scroll up", "One line up", "scroll_lines(-1)"),
    Action("scroll_down", "down,j", "Scroll down", "One line down", "scroll_lines(1)"),
    Action("scroll_page_up", "pageup,ctrl+u", "Page up", "One page up", "scroll_pages(-1)"),
    Action("scroll_page_down", "pagedown,ctrl+d,space", "Page down", "One page down", "scroll_pages(1)"),
    Action("scroll_first", "home,g", "First", "First line", "scroll_edge(-1)"),
    Action("scroll_last", "end,G", "Last", "Last line", "scroll_edge(1)"),
)

QUERY_LINE = (
    Action("earlier_question", "up", "Earlier", "The question asked before", "earlier(1)"),
    Action("later_question", "down", "Later", "The question asked after", "earlier(-1)"),
)

SETTINGS = (
    Action("close_settings", "escape,s,q", "Close", "Stop indexing; else close the settings", "leave", footer=True),
    Action("setting_up", "up,k", "Up", "The setting above", "move(-1)"),
    Action("setting_down", "down,j", "Down", "The setting below", "move(1)"),
    Action("setting_less", "left,h,minus", "Less", "Less, or the choice before", "step(-1)", footer=True),
    Action("setting_more", "right,l,plus", "More", "More, or the next choice", "step(1)", footer=True),
    Action("reset_settings", "u,backspace", "File's values", "Back to the file's values", "reset", footer=True),
    Action("save_settings", "w", "Save", "Write the values to the corpus's lab.yaml", "save", footer=True),
)

MEASURES = (
    Action("close_measures", "escape,e,q", "Back", "Close the measures", "dismiss", footer=True),
    Action("measure_up", "up,k", "Up", "The measure above", "move(-1, 0)"),
    Action("measure_down", "down,j", "Down", "The measure below", "move(1, 0)"),
    Action("group_left", "left,h", "Left", "The kind on the left", "move(0, -1)"),
    Action("group_right", "right,l", "Right", "The kind on the right", "move(0, 1)"),
    Action("queries", "enter", "Queries", "The queries behind the number", "queries", footer=True),
    Action("part_by", "g", "Part by", "Part them by kind, split or a label field", "part_by", footer=True),
    Action("measured_runs", "R,c", "Runs", "Compare with the runs that are kept", "app.runs", footer=True),
    Action("keep_run", "w", "Keep", "Keep this run", "app.keep_run", footer=True),
)

RUNS = (
    Action("leave_runs", "escape,R,q", "Back", "Close the runs", "leave", footer=True),
    Action("run_up", "up,k", "Up", "The run above", "move(-1)"),
    Action("run_down", "down,j", "Down", "The run below", "move(1)"),
    Action("first_run", "home,g", "First", "The first run", "move(-10000)"),
    Action("last_run", "end,G", "Last", "The last run", "move(10000)"),
    Action("baseline", "space", "Baseline", "Make this run the baseline", "baseline", footer=True),
    Action("compare_runs", "enter,c", "Compare", "Compare this run with the baseline", "compare", footer=True),
    Action("measure_before", "left,h", "Measure before", "The measure before", "step(-1)"),
    Action("measure_after", "right,l", "Measure", "The next measure", "step(1)", footer=True),
    Action("order_runs", "o", "Order", "By the measure, or the newest first", "order", footer=True),
    Action("keep_listed", "w", "Keep", "Keep the run of the settings of the moment", "app.keep_run", footer=True),
)

VERSUS = (
    Action("leave_versus", "escape,q", "Back", "Close the comparison", "leave", footer=True),
    Action("kind_before", "left,h", "Kind before", "The kind before", "step_kind(-1)"),
    Action("kind_after", "right,l", "Kind", "All queries, then each kind", "step_kind(1)", footer=True),
    Action("last_versus_measure", "M", "Measure before", "The measure before", "step_measure(-1)"),
    Action("next_versus_measure", "m", "Measure", "The next measure", "step_measure(1)", footer=True),
    Action("turn", "c,tab", "Turn", "Turn baseline and system around", "turn", footer=True),
    Action("changed_up", "up,k", "Up", "The query above", "move(-1)"),
    Action("changed_down", "down,j", "Down", "The query below", "move(1)"),
    Action("first_changed", "home,g", "First", "The query that changed most", "move(-10000)"),
    Action("last_changed", "end,G", "Last", "The query that changed least", "move(10000)"),
    Action("changed_lists", "enter", "Lists", "The query's lists in both, side by side", "lists", footer=True),
)

ABLATION = (
    Action("leave_ablation", "escape,b,q", "Back", "Close the ablation", "leave", footer=True),
    Action("open_configuration", "enter", "Open", "Use this configuration on the question", "open", footer=True),
    Action("compare_configuration", "c", "Compare", "Compare it with the one in use", "compare", footer=True),
    Action("ablation_measure_before", "left,h", "Measure before", "The measure before", "step_measure(-1)"),
    Action("ablation_measure", "right,l", "Measure", "The next measure", "step_measure(1)", footer=True),
    Action("ablation_split", "s", "Split", "All queries, those of dev, those held out", "step_split", footer=True),
    Action("ablation_order", "o", "Order", "Best, worst or fastest first", "order", footer=True),
    Action("ablation_plot", "v", "Plot", "Latency against quality, or the table alone", "plot", footer=True),
    Action("ablation_again", "r", "Again", "Read what was measured meanwhile", "read", footer=True),
    Action("another_ablation", "a", "Another", "Another of the ablations that are kept", "another"),
    Action("configuration_up", "up,k", "Up", "The configuration above", "move(-1)"),
    Action("configuration_down", "down,j", "Down", "The configuration below", "move(1)"),
    Action("configurations_up", "pageup,ctrl+u", "Page up", "Ten configurations up", "move(-10)"),
    Action("configurations_down", "pagedown,ctrl+d", "Page down", "Ten configurations down", "move(10)"),
    Action("first_configuration", "home,g", "First", "The first configuration", "move(-10000)"),
    Action("last_configuration", "end,G", "Last", "The last configuration", "move(10000)"),
)

COMPARE = (
    Action("leave_compare", "escape,q", "Back", "Close the comparison", "app.leave_compare", footer=True),
    Action("other_side", "tab,shift+tab,left,right,h,l", "Side", "Go to the other side", "other_side", footer=True),
    Action("compare_next", "n", "Next", "Next golden query, on both sides", "app.step_golden(1)", footer=True),
    Action("compare_previous", "p,N", "Previous", "Previous golden query", "app.step_golden(-1)"),
    Action("compare_miss", "m", "Miss", "Next miss of either side", "app.step_either_miss(1)", footer=True),
    Action("compare_last_miss", "M", "Previous miss", "Previous miss of either side", "app.step_either_miss(-1)"),
    Action("read_compared", "enter", "Read", "Read the passage among the lists", "read", footer=True),
    Action("explain_compared", "x", "Why", "What this side did with the passage", "explain", footer=True),
    Action("compare_other", "C", "Another", "Compare with another pipeline", "app.compare", footer=True),
)

EXPLAIN = (
    Action("leave_explain", "escape,x,q", "Back", "Stop the search; else close the explanation", "leave", footer=True),
    Action("page_journey", "1", "Journey", "The way through every stage", "page(0)", footer=True),
    Action("page_words", "2", "Words", "How full-text search read the words", "page(1)", footer=True),
    Action("page_rescues", "3", "Rescues", "The changes that would rescue it", "page(2)", footer=True),
    Action("page_before", "left,h", "Page before", "The page before", "next_page(-1)"),
    Action("page_after", "right,l,tab", "Next page", "The next page", "next_page(1)"),
    Action("explain_up", "up,k", "Up", "One line up", "move(-1)"),
    Action("explain_down", "down,j", "Down", "One line down", "move(1)"),
    Action("try_rescue", "enter", "Try", "Try the change on the question", "try", footer=True),
    Action("reindex", "i", "Index too", "Try other ways of indexing, too", "reindex", footer=True),
)

CITED = (
    Action("leave_answer", "escape,A,q", "Back", "Stop who speaks; else close the answer", "leave", footer=True),
    Action("source_up", "up,k", "Up", "The source above", "move(-1)"),
    Action("source_down", "down,j", "Down", "The source below", "move(1)"),
    *(
        Action(f"source_{number}", str(number), f"Source {number}", f"Go to source {number}", f"source({number})")
        for number in range(1, 10)
    ),
    Action("source_page_up", "pageup,ctrl+u", "Page up", "The passage one page up", "scroll(-1)"),
    Action("source_page_down", "pagedown,ctrl+d,space", "Page down", "The passage one page down", "scroll(1)"),
    Action("read_source", "enter", "Read", "Read the passage beside the lists", "read", footer=True),
    Action("other_answerer", "c", "Claude or extractive", "Let the other one answer", "other", footer=True),
    Action("answer_again", "r", "Again", "Answer again", "again", footer=True),
    Action("copy_answer", "y", "Copy", "Copy the answer", "copy", footer=True),
)

_JUDGED = ("first", "second", "third", "fourth", "fifth")

ANALYSIS = (
    Action("leave_analysis", "escape,a,q", "Back", "Close the analysis", "leave", footer=True),
    Action("miss_up", "up,k,M", "Up", "The miss above", "move(-1)"),
    Action("miss_down", "down,j,m", "Down", "The miss below", "move(1)"),
    Action("first_miss", "home,g", "First", "The first miss", "move(-10000)"),
    Action("last_miss", "end,G", "Last", "The last miss", "move(10000)"),
    *(
        Action(f"judge_failure_{place}", str(place), nth, f"Its failure is the {nth} kind", f"judge({place - 1})")
        for place, nth in enumerate(_JUDGED, start=1)
    ),
    *(
        Action(f"judge_fix_{place}", str((place + 5) % 10), nth, f"Its fix is the {nth} kind", f"judge({place + 4})")
        for place, nth in enumerate(_JUDGED, start=1)
    ),
    Action("write_notes", "t", "Notes", "Write notes on the miss", "notes", footer=True),
    Action("write_paragraph", "p", "Paragraph", "Write about its kind of failure", "paragraph", footer=True),
    Action("ask_miss", "enter", "Lists", "Its lists, side by side", "ask(False)", footer=True),
    Action("explain_miss", "x", "Why", "Why it was lost, and what rescues it", "ask(True)", footer=True),
)

PARAGRAPH = (
    Action("drop_paragraph", "escape", "Drop", "Close without keeping the text", "dismiss", footer=True),
    Action("keep_paragraph", "ctrl+s,f10", "Keep", "Keep the text", "keep", footer=True),
)

CHOOSER = (
    Action("close_chooser", "escape", "Close", "Close without choosing", "dismiss", footer=True),
    Action("choose", "enter", "Choose", "Take what is under the cursor", "choose", footer=True),
    Action("option_up", "up", "Up", "One up", "move(-1)"),
    Action("option_down", "down", "Down", "One down", "move(1)"),
    Action("option_page_up", "pageup", "Page up", "Ten up", "move(-10)"),
    Action("option_page_down", "pagedown", "Page down", "Ten down", "move(10)"),
)

PICKER = (
    Action("pick_kind", "f2", "Kind", "One kind after the other", "next_kind", footer=True),
    Action("pick_misses", "f3", "Misses", "The misses only, or all", "toggle_misses", footer=True),
)

DIALOG = (
    Action(
        "close_dialog", "escape,q,question_mark,f1,exclamation_mark", "Close", "Close the page", "dismiss", footer=True
    ),
)

CONFIRM = (
    Action("yes", "y", "Yes", "Yes", "answer(True)"),
    Action("no", "n,escape,q", "No", "No", "answer(False)"),
)

GROUPS = {
    "": EXPLORE,
    "In a list": LIST,
    "In the passage": PASSAGE,
    "In the query line": QUERY_LINE,
    "In the settings": SETTINGS,
    "In a comparison": COMPARE,
    "In an explanation": EXPLAIN,
    "At an answer": CITED,
    "In the analysis": ANALYSIS,
    "Writing a paragraph": PARAGRAPH,
    "Among the measures": MEASURES,
    "Among the runs": RUNS,
    "One run against another": VERSUS,
    "In an ablation": ABLATION,
    "Choosing one of many": CHOOSER,
    "Finding a golden query": PICKER,
    "On a page like this": DIALOG,
    "When asked": CONFIRM,
}
"""All actions by where their keys work, everywhere first."""


def shown_keys(action: Action, keymap: Keymap) -> str:
    """The action's keys as a person reads them."""
    keys = keymap.get(action.id, action.keys).split(",")
    return ", ".join(format_key(key.strip()) for key in keys)


def first_key(action: Action, keymap: Keymap) -> str:
    """The first of the action's keys as a person reads it."""
    return format_key(keymap.get(action.id, action.keys).split(",")[0].strip())


def bindings(actions: Iterable[Action]) -> list[BindingType]:
    """Textual's bindings for the actions, in their order."""
    return [action.binding() for action in actions]
