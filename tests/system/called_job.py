"""A script that starts a job of another one, as `paceline.run` is called in many places."""

import sys
import threading
from pathlib import Path

import paceline

SMALL = Path(__file__).with_name("small_job.py")
ENDLESS = """
import torch, paceline
session = paceline.connect()
model = torch.nn.Linear(1, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.001))
for (batch,) in session.batches((torch.ones(64, 1),), batch_size=8, epochs=10**6):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("a batch", flush=True)
"""


def in_thread() -> None:
    found = []
    thread = threading.Thread(
        target=lambda: found.append(paceline.run(SMALL, trainers=2, servers=2))
    )
    thread.start()
    thread.join()
    sys.stdout.write(f"{found[0].records} {found[0].ending}\n")


def endless() -> None:
    script = Path("endless.py")
    script.write_text(ENDLESS)
    try:
        paceline.run(script, job_dir="job", checkpoint_every="off")
    except KeyboardInterrupt as ended:
        sys.stdout.write(f"ended by {type(ended).__name__}\n")
        raise


if __name__ == "__main__":
    globals()[sys.argv[1]]()
