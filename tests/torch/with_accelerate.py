"""Two ranks that train with Accelerate, and compare what they have learned."""

import torch
import torch.distributed as dist
from accelerate import Accelerator

dist.init_process_group("unisono")
accelerator = Accelerator(cpu=True)
torch.manual_seed(accelerator.process_index)  # other models, until DDP sends those of rank 0
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
assert accelerator.num_processes == 2
assert dist.get_backend() == "unisono"
for batch in data:
    optimizer.zero_grad()
    accelerator.backward(model(batch).pow(2).mean())
    optimizer.step()
everybody = accelerator.gather(model.module.weight.detach().reshape(1, -1))
assert torch.equal(everybody[0], everybody[1])
print("all ranks have the same model")
dist.destroy_process_group()
