"""The libraries of torch over the backend hmc, on CPUs, on 4 ranks: cases.py --ranks 4 frameworks.

frameworks.py [NAME...], on each rank. A test that this release of torch can't run prints "skipped" and the reason.
"""
import importlib.util
import os
import sys
import tempfile

import torch
import torch.distributed as dist

import hmc.torch  # torch 1.13 doesn't find backends
import spmd
from spmd import Skipped

torch.set_num_threads(1)


def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(16, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40), torch.nn.Tanh(),
                               torch.nn.Linear(40, 8)).double()


def batch(step, share=slice(None)):
    torch.manual_seed(50 + step)
    return torch.randn(24, 16).double()[share], torch.randn(24, 8).double()[share]


def my_share():
    each = 24 // dist.get_world_size()
    return slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)


def train(trained, optimizer, steps=4, share=None):
    for step in range(steps):
        inputs, targets = batch(step, my_share() if share is None else share)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(trained(inputs), targets).backward()
        optimizer.step()


def reference(steps=4, optimizer=torch.optim.Adam):
    """The parameters after training on one rank with the whole batch."""
    alone = model()
    train(alone, optimizer(alone.parameters(), lr=0.01), steps, slice(None))
    return dict(alone.named_parameters())


def check(parameters, expected):
    for name, value in parameters:
        torch.testing.assert_close(value.detach(), expected[name.replace("module.", "")].detach(), rtol=1e-9, atol=1e-11)


def needs_recent_torch(name):
    if importlib.util.find_spec("torch.distributed.tensor") is None:
        raise Skipped(f"torch {torch.__version__} has no {name}")


def ddp(*arguments, **named):
    try:
        return torch.nn.parallel.DistributedDataParallel(*arguments, **named)
    except ValueError as error:
        if "mutable default" in str(error):
            raise Skipped("this torch's DistributedDataParallel doesn't work with this Python") from error
        raise


def test_distributed_data_parallel():
    for options in ({}, {"bucket_cap_mb": 0.002}, {"gradient_as_bucket_view": True}, {"static_graph": True},
                    {"find_unused_parameters": True}):
        trained = ddp(model(), **options)
        train(trained, torch.optim.Adam(trained.parameters(), lr=0.01))
        check(trained.named_parameters(), reference())
    # Gradients accumulate without communication.
    trained = ddp(model())
    inputs, targets = batch(0, my_share())
    with trained.no_sync():
        torch.nn.functional.mse_loss(trained(inputs), targets).backward()
    torch.nn.functional.mse_loss(trained(inputs), targets).backward()
    alone = model()
    inputs, targets = batch(0)
    (2 * torch.nn.functional.mse_loss(alone(inputs), targets)).backward()
    for a, b in zip(trained.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-11)


def test_communication_hook():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    trained = ddp(model().float())
    recent = hasattr(torch, "float8_e4m3fn")  # 1.13 has the other hook for CUDA only
    trained.register_comm_hook(None, default_hooks.bf16_compress_hook if recent else default_hooks.fp16_compress_hook)
    inputs, targets = (each.float() for each in batch(0, my_share()))
    torch.nn.functional.mse_loss(trained(inputs), targets).backward()
    alone = model()
    inputs, targets = batch(0)
    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
    for a, b in zip(trained.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad, b.grad.float(), rtol=0.03, atol=0.003)


def test_uneven_inputs():
    trained = ddp(model())
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    with trained.join():
        for step in range(2 + dist.get_rank()):
            inputs, targets = batch(step)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(trained(inputs), targets).backward()
            optimizer.step()
    dist.barrier()


def test_zero_redundancy_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    for options in ({}, {"parameters_as_bucket_view": True}):
        trained = ddp(model())
        optimizer = ZeroRedundancyOptimizer(trained.parameters(), torch.optim.Adam, lr=0.01, **options)
        train(trained, optimizer)
        check(trained.named_parameters(), reference())
    optimizer.consolidate_state_dict(0)
    if dist.get_rank() == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(trained.parameters()))


def test_fully_sharded():
    needs_recent_torch("FSDP2")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    ranks = dist.get_world_size()
    meshes = [init_device_mesh("cpu", (ranks,))]
    if ranks % 2 == 0:
        meshes.append(init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard")))
    for mesh in meshes:
        trained = model()
        for layer in trained:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(trained, mesh=mesh)
        train(trained, torch.optim.Adam(trained.parameters(), lr=0.01))
        check(((name, value.full_tensor()) for name, value in trained.named_parameters()), reference())


class Uncopied:
    """Checks that a block's collectives have copied no large buffer."""

    def __enter__(self):
        self.before = hmc.torch.counters()

    def __exit__(self, kind, *error):
        after = hmc.torch.counters()
        added = {name: after[name] - self.before[name] for name in after}
        if kind is None:
            assert added["in_place"] > 0 and added["staged"] == added["read"] == 0, added


def large_model():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(16, 40000), torch.nn.Tanh(), torch.nn.Linear(40000, 8))


def test_buckets_in_windows():
    trained = ddp(large_model(), gradient_as_bucket_view=True)
    hmc.torch.use_windows(trained)
    inputs, targets = (each.float() for each in batch(0, my_share()))
    for step in range(4):  # the buckets are arranged in the second step
        trained.zero_grad()
        loss = torch.nn.functional.mse_loss(trained(inputs), targets)
        if step < 2:
            loss.backward()
            continue
        with Uncopied():
            loss.backward()
    alone = large_model()
    inputs, targets = (each.float() for each in batch(0))
    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
    for a, b in zip(trained.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_fully_sharded_buffers_in_windows():
    needs_recent_torch("FSDP2")
    from torch.distributed.fsdp import fully_shard

    trained = large_model()
    for layer in (trained[0], trained[2]):
        fully_shard(layer)
    fully_shard(trained)
    trained.set_allocate_memory_from_process_group_for_comm(True)
    for layer in (trained[0], trained[2]):
        layer.set_allocate_memory_from_process_group_for_comm(True)
    inputs, targets = (each.float() for each in batch(0, my_share()))
    for _ in range(3):
        trained.zero_grad()
        with Uncopied():
            torch.nn.functional.mse_loss(trained(inputs), targets).backward()
    alone = large_model()
    inputs, targets = (each.float() for each in batch(0))
    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
    for a, b in zip(trained.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad.full_tensor(), b.grad, rtol=1e-4, atol=1e-6)


def test_distributed_tensors():
    needs_recent_torch("DTensor")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    whole = torch.arange(8 * ranks * 6).double().reshape(8 * ranks, 6)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert rows.to_local().shape == (8, 6)
    for placement in (Replicate(), Shard(1), Shard(0)):
        assert torch.equal(rows.redistribute(mesh, [placement]).full_tensor(), whole)
    product = rows.redistribute(mesh, [Shard(1)]) @ distribute_tensor(whole.t().contiguous(), mesh, [Shard(0)])
    assert product.placements == (Partial(),) and torch.equal(product.full_tensor(), whole @ whole.t())
    trained = model()
    parallelize_module(trained, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(trained, torch.optim.Adam(trained.parameters(), lr=0.01), share=slice(None))
    expected = reference()
    for name, value in trained.named_parameters():
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        torch.testing.assert_close(value.detach(), expected[name].detach(), rtol=1e-9, atol=1e-11)


def test_distributed_checkpoint():
    needs_recent_torch("torch.distributed.checkpoint with state dicts")
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    path = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(path, 0)
    trained = fully_shard(model())
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    train(trained, optimizer, 2)
    weights, state = get_state_dict(trained, optimizer)
    checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=path[0])
    again = fully_shard(model())
    other = torch.optim.Adam(again.parameters(), lr=0.01)
    weights, state = get_state_dict(again, other)
    loaded = {"model": weights, "optimizer": state}
    checkpoint.load(loaded, checkpoint_id=path[0])
    set_state_dict(again, other, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    for step in (2, 3):
        inputs, targets = batch(step, my_share())
        other.zero_grad()
        torch.nn.functional.mse_loss(again(inputs), targets).backward()
        other.step()
    check(((name, value.full_tensor()) for name, value in again.named_parameters()), reference())


def test_pipeline_by_messages():
    """Stages by hand: activations forward, gradients back, as one batch of messages per micro batch."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    stages = [torch.nn.Linear(12, 12).double() for _ in range(ranks)]
    inputs = torch.randn(6, 12).double()
    whole = torch.nn.Sequential(*stages)
    expected = torch.autograd.grad(whole(inputs).sum(), stages[rank].weight)[0]
    gradient = torch.zeros_like(expected)
    for micro in range(3):
        part = inputs[2 * micro: 2 * micro + 2].clone()
        if rank > 0:
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, part, rank - 1)])[0].wait()
        part.requires_grad_()
        out = stages[rank](part)
        if rank < ranks - 1:
            back = torch.empty_like(out)
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out.detach(), rank + 1),
                                            dist.P2POp(dist.irecv, back, rank + 1)])
            for work in works:
                work.wait()
        else:
            back = torch.ones_like(out)
        weight, part_gradient = torch.autograd.grad(out, (stages[rank].weight, part), back)
        gradient += weight
        if rank > 0:
            dist.send(part_gradient, rank - 1)
    torch.testing.assert_close(gradient, expected)


def test_pipeline_schedules():
    needs_recent_torch("torch.distributed.pipelining")
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    rank, ranks = dist.get_rank(), dist.get_world_size()
    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(8)
        layers = [torch.nn.Linear(10, 10) for _ in range(ranks)]
        inputs, targets = torch.randn(8, 10), torch.randn(8, 10)
        whole = torch.nn.Sequential(*layers)
        loss = torch.nn.functional.mse_loss(whole(inputs), targets)
        expected = torch.autograd.grad(loss, layers[rank].weight)[0]
        layers[rank].zero_grad()
        stage = PipelineStage(layers[rank], rank, ranks, torch.device("cpu"))
        schedule = schedule_class(stage, n_microbatches=4, loss_fn=torch.nn.MSELoss())
        found = []
        if rank == 0:
            schedule.step(inputs)
        elif rank == ranks - 1:
            schedule.step(target=targets, losses=found)
        else:
            schedule.step()
        torch.testing.assert_close(layers[rank].weight.grad, expected, rtol=1e-4, atol=1e-5)
        if rank == ranks - 1:
            torch.testing.assert_close(torch.stack(found).mean(), loss, rtol=1e-4, atol=1e-5)


def test_split_group():
    needs_recent_torch("split_group")
    ranks = dist.get_world_size()
    if ranks % 2:
        raise Skipped("for an even number of ranks")
    halves = [list(range(ranks // 2)), list(range(ranks // 2, ranks))]
    try:
        group = dist.split_group(split_ranks=halves)
    except RuntimeError as error:
        if "device" in str(error) or "split" in str(error):
            raise Skipped(f"split_group needs a device: {error}") from error
        raise
    mine = halves[dist.get_rank() // (ranks // 2)]
    tensor = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == sum(mine)


def main():
    dist.init_process_group("hmc")
    spmd.run(globals(), sys.argv[1:])
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
