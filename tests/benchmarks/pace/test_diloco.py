"""DiLoCo beside lockstep: what is compared with what, and what the script trains on."""

import pytest

from benchmarks.pace import diloco, language


def runs_of(
    loss: dict[str, float], pushed: dict[str, float]
) -> dict[str, list[diloco.Trained]]:
    return {pace: [diloco.Trained(loss[pace], pushed[pace], 100, 1.0)] * 3 for pace in loss}


def test_codecs_and_fragments_are_judged_against_deltas_as_they_are() -> None:
    coded = [diloco.pace_with(codec) for codec in diloco.CODECS]
    paces = [diloco.LOCKSTEP, diloco.OURS, *coded, diloco.IN_FRAGMENTS]
    loss = dict.fromkeys(paces, 2.02)
    pushed = dict.fromkeys(paces, 2.0)
    loss[diloco.LOCKSTEP], pushed[diloco.LOCKSTEP] = 2.0, 100.0
    loss[coded[0]], pushed[coded[0]] = 2.2, 0.25
    figures = diloco.figures_of(runs_of(loss, pushed))
    found = {
        (ratio.what, ratio.ours): (ratio.value, ratio.against, ratio.verdict)
        for ratio in diloco.ratios_of(figures)
    }
    assert found["held-out loss", diloco.OURS] == (
        pytest.approx(1.01),
        diloco.LOCKSTEP,
        "reached",
    )
    assert found["pushed", diloco.OURS] == (50.0, diloco.LOCKSTEP, "reached")
    assert found["held-out loss", coded[0]][1:] == (diloco.OURS, "missed")
    assert found["pushed", coded[0]] == (8.0, diloco.OURS, "reached")
    assert found["pushed", coded[1]][2] == "missed"
    assert found["held-out loss", diloco.IN_FRAGMENTS] == (1.0, diloco.OURS, "reached")


def test_the_rate_goes_up_in_a_line_and_down_to_a_twentieth() -> None:
    shares = [language.rate_of(step, 1000) for step in range(1000)]
    assert shares[0] == pytest.approx(1 / 50)
    assert max(shares) == shares[50] == 1.0
    assert shares[50:] == sorted(shares[50:], reverse=True)
    assert shares[-1] == pytest.approx(0.05, abs=1e-3)
    assert language.rate_of(2000, 1000) == pytest.approx(0.05), "who has trained more"


def test_examples_are_the_same_whoever_reads_them_and_begin_with_those_of_fewer() -> None:
    first, held_out = language.read_examples(50)
    again, held_out_again = language.read_examples(50)
    assert first.shape == (50, language.CONTEXT + 1)
    assert held_out.shape == (language.HELD_OUT, language.CONTEXT + 1)
    assert first.equal(again)
    assert held_out.equal(held_out_again)
    assert int(first.max()) < language.BYTES
