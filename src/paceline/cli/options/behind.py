"""Options of `paceline run` that stand behind the script, and so are the script's."""

import sys

import typer


def tell_behind(context: typer.Context, words: list[str] | None) -> list[str] | None:
    """Say of each that it goes to the script, which may not look at it at all."""
    if context.resilient_parsing or not words:
        return words
    own = {name: one for one in context.command.params for name in one.opts}
    script = context.params.get("script", "the script")
    for at, word in enumerate(words):
        option = own.get(word.partition("=")[0]) if word.startswith("--") else None
        if option is None:
            continue
        takes_more = "=" not in word and not getattr(option, "is_flag", False)
        said = " ".join(words[at : at + 1 + takes_more])
        print(
            f"paceline: {said} stands behind {script} and goes to it; for paceline write "
            f"it before",
            file=sys.stderr,
        )
    return words
