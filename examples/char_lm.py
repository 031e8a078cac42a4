"""A language model that learns Python by its characters: a transformer in torch, on text that ships with Python.

    unisono run -n 2 examples/char_lm.py [STEPS]

Two lines make it data-parallel: `from unisono.train import DataParallel`, and `model = DataParallel(model)`. Every rank
reads other places of the text. It needs torch (`pip install torch`).
"""

import pydoc_data.topics
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from unisono.train import DataParallel

WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 128, 4, 2, 64, 16


class CharacterModel(nn.Module):
    """Predicts the next character from those before it."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, characters, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        length = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.embedding(text) * 0.2 + self.position[:length]
        return self.head(self.blocks(x, mask=mask, is_causal=True))


@torch.no_grad()
def continued(model: nn.Module, text: list[int], length: int) -> list[int]:
    for _ in range(length):
        scores = model(torch.tensor([text[-CONTEXT:]]))[0, -1]
        text = [*text, int(torch.multinomial(torch.softmax(scores / 0.7, 0), 1))]
    return text


def main(steps: int) -> None:
    torch.set_num_threads(1)
    corpus = Path(pydoc_data.topics.__file__).read_text()
    alphabet = sorted(set(corpus))
    numbers = torch.tensor([alphabet.index(character) for character in corpus[:400_000]])

    torch.manual_seed(0)
    model = DataParallel(CharacterModel(len(alphabet)))
    rank = model.comm.rank
    torch.manual_seed(1 + rank)  # other places on every rank
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        starts = torch.randint(0, len(numbers) - CONTEXT - 1, (BATCH,))
        rows = torch.stack([numbers[start : start + CONTEXT + 1] for start in starts])
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if rank == 0 and (step % 20 == 0 or step == steps - 1):
            print(f"step {step}: {loss.item():.3f} nats per character", flush=True)
    if rank == 0:
        written = continued(model.module, numbers[:CONTEXT].tolist(), 200)[CONTEXT:]
        print("it writes:", repr("".join(alphabet[number] for number in written)))
        print(model.report())
    model.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 40)
