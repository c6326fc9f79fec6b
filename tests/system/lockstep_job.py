"""Trains a given model on given data, in rounds, and writes down what it came to."""

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

import paceline


def main() -> None:
    """Train in all trainers; one of them writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with model and data, for the result")
    parser.add_argument("--kind", required=True, help="class name of the optimizer")
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--task", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    flags = parser.parse_args()

    data = load_file(flags.folder / "data.safetensors")
    columns = data["features"], data["target"]
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    model = model.to(columns[0].dtype)
    model.load_state_dict(load_file(flags.folder / "model.safetensors"))
    hyper = {"lr": flags.lr} | ({"momentum": flags.momentum} if flags.momentum else {})
    session = paceline.connect()
    made = getattr(torch.optim, flags.kind)(model.parameters(), **hyper)
    optimizer = session.share(model, made)
    loop = session.batches(
        columns, flags.batch, epochs=flags.epochs, task_size=flags.task, seed=11
    )
    for features, target in loop:
        nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()
        optimizer.zero_grad()
    if session.once("write"):
        save_file(model.state_dict(), flags.folder / "result.safetensors")


if __name__ == "__main__":
    main()
