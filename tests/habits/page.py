"""The table of `docs/what-your-script-may-do.md`, as the habits have it.

::

    python -m tests.habits.page     prints it
"""

from collections.abc import Sequence

from tests.habits import batches, models, optimizers, parameters, steps
from tests.habits.playing import HABITS, Habit

MODULES = (parameters, optimizers, steps, batches, models)  # they say what the habits are
_WHAT = {
    "equal": "equal to the bit",
    "documented": "works: {says}",
    "refused": "refused: *{says}*",
}


def table(habits: Sequence[Habit]) -> str:
    """Markdown: a row for each habit, by what it touches."""
    lines = ["| habit | what becomes of it |", "|---|---|"]
    for habit in sorted(habits, key=lambda habit: habit.touches):
        what = _WHAT[habit.verdict].format(says=habit.says)
        both = ", also with two trainers" if habit.with_two else ""
        lines.append(f"| {habit.title} ({habit.touches}) | {what}{both} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(HABITS))  # noqa: T201  (what it is for)
