"""Who is waited for in rounds, and what that has cost."""

from paceline.dashboard.rounds import SHOWN, LastRounds


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

    assert rounds.straggler() == {
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

    assert rounds.straggler() is None


def test_what_is_not_worth_a_word_is_not_told() -> None:
    rounds = LastRounds()
    for n in range(40):
        rounds.add(float(n), closed({"trainer-0": 0.0, "trainer-1": 0.01}))

    assert rounds.straggler() is None
    assert round(rounds.lost_s["trainer-1"], 6) == 0.4


def test_one_trainer_waits_for_nobody() -> None:
    rounds = LastRounds()
    for n in range(40):
        rounds.add(float(n), closed({"trainer-0": 0.0}))

    assert rounds.straggler() is None
    assert not rounds.lost_s


def test_a_step_over_several_parts_is_one_round() -> None:
    rounds = LastRounds()
    for n in range(100):
        for part in (0, 1):
            rounds.add(float(n), closed({"trainer-0": 0.0, "trainer-1": 0.5}, part))

    assert len(rounds.as_list()) == SHOWN
    assert rounds.lost_s == {"trainer-1": 50.0}
