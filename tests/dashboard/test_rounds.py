"""Who is waited for in rounds, and what that has cost."""

from paceline.dashboard.rounds import FRESH_S, MOST_SHOWN, SHOWN, LastRounds


def closed(came_s: dict[str, float], part: int = 0) -> dict[str, object]:
    return {
        "event": "RoundCommitted",
        "part": part,
        "contributions": [{"trainer": name} for name in came_s],
        "came_s": list(came_s.values()),
    }


def test_who_always_comes_last_is_told_with_what_the_others_waited() -> None:
    rounds = LastRounds()
    for n in range(20):
        came = {"trainer-0": 0.0, "trainer-1": 0.02, "trainer-2": 0.1}
        rounds.add(0.125 * n, closed(came))

    assert rounds.straggler(2.5) == {
        "trainer": "trainer-2",
        "times": 20,
        "rounds": 20,
        "lost_s": 1.6,
        "lasted_s": 2.38,
        "ever_s": 1.6,
    }


def test_where_everybody_is_last_now_and_then_nobody_is_told() -> None:
    rounds = LastRounds()
    for n in range(40):
        names = [f"trainer-{(n + k) % 4}" for k in range(4)]
        rounds.add(0.1 * n, closed(dict(zip(names, (0.0, 0.01, 0.02, 0.09), strict=True))))

    assert rounds.straggler(4.0) is None


def test_what_is_not_worth_a_word_is_not_told() -> None:
    rounds = LastRounds()
    for n in range(40):
        rounds.add(float(n), closed({"trainer-0": 0.0, "trainer-1": 0.01}))

    assert rounds.straggler(4.0) is None
    assert round(rounds.lost_s["trainer-1"], 6) == 0.4


def test_one_trainer_waits_for_nobody() -> None:
    rounds = LastRounds()
    for n in range(40):
        rounds.add(float(n), closed({"trainer-0": 0.0}))

    assert rounds.straggler(4.0) is None
    assert not rounds.lost_s


def test_a_step_over_several_parts_is_one_round() -> None:
    rounds = LastRounds()
    for n in range(100):
        for part in (0, 1):
            rounds.add(float(n), closed({"trainer-0": 0.0, "trainer-1": 0.5}, part))

    assert len(rounds.as_list()) == SHOWN
    assert rounds.lost_s == {"trainer-1": 50.0}


def uneven(part: int = 0) -> LastRounds:
    rounds = LastRounds()
    for n in range(SHOWN):
        rounds.add(float(n), closed({"trainer-0": 0.0, "trainer-1": 0.5}, part))
    return rounds


def test_rounds_of_long_ago_or_of_another_pace_name_nobody() -> None:
    rounds = uneven()
    last_s = float(SHOWN - 1)
    assert rounds.straggler(last_s) is not None
    assert rounds.straggler(last_s + FRESH_S + 1) is None

    rounds.clear()

    assert rounds.straggler(last_s) is None
    assert not rounds.as_list()
    assert rounds.lost_s == {"trainer-1": 0.5 * SHOWN}


def test_a_part_that_has_no_rounds_any_more_hides_no_other() -> None:
    rounds = uneven()
    for n in range(2 * SHOWN):
        for part in (2, 1):
            rounds.add(100.0 + n, closed({"trainer-0": 0.0, "trainer-7": 0.5}, part))

    told = rounds.straggler(100.0 + 2 * SHOWN)
    assert told is not None
    assert told["trainer"] == "trainer-7"
    assert rounds.lost_s["trainer-7"] <= 0.5 * 2 * SHOWN


def test_of_a_thousand_trainers_those_that_come_last_are_sent_to_pages() -> None:
    rounds = LastRounds()
    names = [f"trainer-{n}" for n in range(1000)]
    for n in range(SHOWN):
        came = dict.fromkeys(names, 0.0) | {"trainer-700": 0.5}
        rounds.add(float(n), closed(came))

    [came, last] = rounds.as_list()[-1]
    assert len(came) == MOST_SHOWN
    assert last == "trainer-700"
    assert came[last] == 0.5
