"""Matrix factorisation with `nn.Embedding(sparse=True)`: who would like what.

The ratings are made here, from tastes that the model has to find again.
"""

import torch
from torch import Tensor, nn

import paceline

USERS, ITEMS, TASTES, RECORDS = 200, 100, 4, 6400


class Factors(nn.Module):
    """A rating is the product of what a user likes and what an item is."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, TASTES, sparse=True)
        self.items = nn.Embedding(ITEMS, TASTES, sparse=True)

    def forward(self, pairs: Tensor) -> Tensor:
        """Ratings ``(batch,)`` of pairs of user and item, int64 ``(batch, 2)``."""
        return (self.users(pairs[:, 0]) * self.items(pairs[:, 1])).sum(dim=1)


def make_ratings() -> tuple[Tensor, Tensor]:
    """Pairs ``(records, 2)`` and the rating of each."""
    pairs = torch.stack(
        [torch.randint(USERS, (RECORDS,)), torch.randint(ITEMS, (RECORDS,))], dim=1
    )
    likes, looks = torch.randn(USERS, TASTES), torch.randn(ITEMS, TASTES)
    ratings = (likes[pairs[:, 0]] * looks[pairs[:, 1]]).sum(dim=1)
    return pairs, ratings + 0.1 * torch.randn(RECORDS)


def main() -> None:
    """Train for two epochs."""
    torch.manual_seed(0)
    data = make_ratings()
    model = Factors()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.3)
    session = paceline.connect()
    optimizer = session.share(model, optimizer)
    for pairs, ratings in session.batches(data, batch_size=256, epochs=2):
        loss = nn.functional.mse_loss(model(pairs), ratings)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.log(loss=loss.item())


if __name__ == "__main__":
    main()
