"""The step time of data-parallel training with gloo and hmc, in interleaved rounds: steps.py [--rounds N] [MODEL...].

Run by hmcrun. Models: a small transformer and a ResNet-like network. Rank 0 prints medians in milliseconds: a step without
DistributedDataParallel (all ranks compute at the same time), and what it adds: over a hook that does nothing, gloo, hmc, and
hmc with its buckets in windows. The ratios are gloo's exchange to hmc's and to that in windows: without what
DistributedDataParallel itself costs.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

import hmc.torch

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("--rounds", type=int, default=15)
parser.add_argument("models", nargs="*")
arguments = parser.parse_args()


class Transformer(nn.Module):
    """A decoder of 4 layers, 4 M parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, 1000)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))

    @staticmethod
    def batch():
        return torch.randint(1000, (2, 32)), torch.randint(1000, (2, 32))

    @staticmethod
    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
                                  nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
        self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, images):
        return torch.relu(self.body(images) + self.skip(images))


class ResNet(nn.Module):
    """8 convolutional blocks, 11 M parameters as ResNet-18."""

    def __init__(self):
        super().__init__()
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        blocks = [Block(a, b, 2 if a != b else 1) for a, b in zip(widths, widths[1:])]
        self.body = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(512, 10)

    def forward(self, images):
        return self.head(self.body(images))

    @staticmethod
    def batch():
        return torch.randn(4, 3, 16, 16), torch.randint(10, (4,))

    @staticmethod
    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)


def without_exchange(state, bucket):
    """A communication hook that does nothing."""
    del state
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def step_of(model, batch):
    """A function that trains one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loss = (model.module if hasattr(model, "module") else model).loss

    def step():
        optimizer.zero_grad()
        loss(model(batch[0]), batch[1]).backward()
        optimizer.step()

    return step


def measure(step):
    """Milliseconds of a step of the slowest rank, of 4."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(4):
        step()
    spent = torch.tensor([time.perf_counter() - start])
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    return 1e3 * spent.item() / 4


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {"nothing": dist.group.WORLD, "gloo": dist.group.WORLD, "hmc": dist.new_group(backend="hmc"),
              "windows": dist.new_group(backend="hmc")}
    if dist.get_rank() == 0:
        print(f"torch {torch.__version__}, {dist.get_world_size()} ranks; ms per step\n{'model':12} {'parameters':>10} "
              f"{'alone':>8}" + "".join(f" {'+ ' + name:>10}" for name in groups) + "  ratios", flush=True)
    for each in (Transformer, ResNet):
        if arguments.models and each.__name__.lower() not in arguments.models:
            continue
        torch.manual_seed(1)
        batch = each.batch()
        steps = {"alone": step_of(each(), batch)}
        for name, group in groups.items():
            parallel = nn.parallel.DistributedDataParallel(each(), process_group=group, gradient_as_bucket_view=True)
            if name == "nothing":
                parallel.register_comm_hook(None, without_exchange)
            if name == "windows":
                hmc.torch.use_windows(parallel)
            steps[name] = step_of(parallel, batch)
        times = {name: [] for name in steps}
        for step in steps.values():  # DistributedDataParallel arranges its buckets in the second step
            for _ in range(3):
                step()
        for _ in range(arguments.rounds):
            for name, step in steps.items():
                times[name].append(measure(step))
        # The differences within a round, because the machine's speed varies between rounds.
        alone = times["alone"]
        added = {name: statistics.median(t - a for t, a in zip(times[name], alone)) for name in groups}
        if dist.get_rank() == 0:
            exchange = {name: ms - added["nothing"] for name, ms in added.items()}
            ratios = [f"{exchange['gloo'] / exchange[name]:.1f}" if exchange[name] > 0 else "hidden" for name in ("hmc", "windows")]
            print(f"{each.__name__:12} {sum(p.numel() for p in each().parameters()):10} {statistics.median(alone):8.1f}" +
                  "".join(f" {ms:10.1f}" for ms in added.values()) + "  " + " ".join(ratios), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        if "mutable default" not in str(error):
            raise
        print(f"torch {torch.__version__}'s DistributedDataParallel doesn't work with this Python: no step times", flush=True)
