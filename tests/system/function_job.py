"""As a notebook: what is defined here is nowhere else, and trainers call it."""

import sys

import paceline

RECORDS = 640


def heads() -> int:
    """Used by the function alone."""
    return 1


def make(batch_size: int):  # noqa: ANN201  (as people write in notebooks)
    """A function with a variable of its own."""

    def train(epochs: int) -> None:
        import torch  # noqa: PLC0415
        from beside import RATE  # noqa: PLC0415  (a module beside the notebook)

        session = paceline.connect()
        model = torch.nn.Linear(1, heads())
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        optimizer = session.share(model, optimizer)
        data = (torch.ones(RECORDS, 1),)
        for (batch,) in session.batches(data, batch_size=batch_size, epochs=epochs):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        sys.stdout.write(f"called {__name__} with {epochs}\n")

    return train


if __name__ == "__main__":
    summary = paceline.run(
        make(32),
        args=(2,),
        trainers=2,
        pace=paceline.Async(),
        job_dir="job",
        tee=["trainer-0"],
    )
    sys.stdout.write(f"{summary.records} {summary.ending}\n")
