"""Two ranks that train with Lightning, and compare what they have learned."""

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_end(self) -> None:
        assert dist.get_backend() == "unisono"
        everybody = [torch.empty_like(self.layer.weight) for _ in range(2)]
        dist.all_gather(everybody, self.layer.weight.detach())
        assert torch.equal(*everybody)
        print("all ranks have the same model", flush=True)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="unisono"), max_epochs=1,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=4))
