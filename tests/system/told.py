"""The figures of a run with faults, where whoever runs a soak can see them."""

from paceline.testing.chaos import ChaosReport


def told(report: ChaosReport) -> ChaosReport:
    print(f"{report.faults} {report.counters} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    return report
