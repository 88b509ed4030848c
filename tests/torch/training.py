"""An ordinary training program: data parallel, any launcher, any backend. Prints the losses; the same for any number of
ranks that divides the batch.

training.py [--backend hmc] [--device cpu] [--steps N] [--die RANK STEP] [--no-destroy] [--exact]
"""
import argparse
import os
import signal
import sys

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="hmc")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--die", type=int, nargs=2)
parser.add_argument("--no-destroy", action="store_true")
parser.add_argument("--device", default="cpu")
parser.add_argument("--exact", action="store_true", help="32 bits, and all digits of the losses and of the weights' sum")
parser.add_argument("--no-ddp", action="store_true", help="average the gradients by hand")
arguments = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group(arguments.backend)
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 300), torch.nn.ReLU(),
                            torch.nn.Linear(300, 1)).to(arguments.device, torch.float32 if arguments.exact else torch.float64)
trained = model if arguments.no_ddp else torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.05)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(arguments.steps):
    torch.manual_seed(100 + step)
    like = next(model.parameters())
    inputs, targets = torch.randn(24, 32).to(like), torch.randn(24, 1).to(like)
    share = 24 // ranks
    mine = slice(rank * share, (rank + 1) * share)
    if arguments.die == [rank, step]:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(trained(inputs[mine]), targets[mine])
    loss.backward()
    if arguments.no_ddp:
        for each in model.parameters():
            dist.all_reduce(each.grad)
            each.grad /= ranks
    optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    if rank == 0:
        print(f"step {step} loss {loss.item() / ranks:.6f}", flush=True)
        if arguments.exact:
            print(f"exact {loss.item().hex()} {sum(each.double().sum() for each in model.parameters()).item().hex()}", flush=True)
if rank == 0:
    print(f"trained by {ranks} ranks, torch {torch.__version__}, LOCAL_RANK {os.environ.get('LOCAL_RANK')}", flush=True)
if not arguments.no_destroy:
    dist.destroy_process_group()
sys.exit(0)
