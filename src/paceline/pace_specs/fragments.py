"""What may be asked of a model in fragments, whose rounds take turns."""

from paceline.pace_specs.checks import is_number, is_whole, require

USUAL_MIX = 0.5  # of the paper's main runs


def require_all_in_turn(turns: bool, quorum: object) -> None:
    """Refuse a quorum beside turns.

    Raises:
        UsageError: a round would close without some, and they would fall out of turn.
    """
    require(
        not turns or quorum is None,
        f"diloco: quorum={quorum} with fragments or overlap: who is not in a round of one "
        f"fragment falls out of turn with the others; leave one of them out",
    )


def require_fragments(every: int, fragments: object, overlap: object, mix: object) -> None:
    """Refuse fragments that no ``every`` batches can be cut for.

    Raises:
        UsageError: there is less than a batch for each fragment; a round that is not over
            when the next one begins; a share of local values that is none, or of no use.
    """
    require(
        is_whole(fragments) and 1 <= fragments <= every,  # type: ignore[operator]  # it is a whole number
        f"diloco: fragments is a number from 1 to every={every}, a batch or more for each "
        f"one's turn, got {fragments!r}",
    )
    turn = every // fragments  # type: ignore[operator]  # as above
    require(
        is_whole(overlap) and 0 <= overlap < turn,  # type: ignore[operator]  # as above
        f"diloco: overlap is a number of batches from 0 to below the {turn} of one turn "
        f"(every={every} over fragments={fragments}), got {overlap!r}",
    )
    require(
        is_number(mix) and 0 <= mix < 1,  # type: ignore[operator]  # it is a number
        f"diloco: mix is a number from 0 to below 1, got {mix!r}",
    )
    require(
        overlap != 0 or mix == USUAL_MIX,
        f"diloco: mix={mix} is of values that come while a trainer steps on, and with "
        f"overlap=0 it waits for them: give overlap, or leave mix out",
    )
