"""Packages over torch.distributed that Debian doesn't have: cases.py packages."""
import importlib.util

from cases import Skipped, job


def needs(package):
    if importlib.util.find_spec(package) is None:
        raise Skipped(f"No module named '{package}'; ./dev torch installs it")


def test_accelerate():
    needs("accelerate")
    output = job(2, """
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
        model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
        losses = accelerator.gather(loss.detach().reshape(1))
        weight = next(model.parameters()).detach()
        everyones = [torch.empty_like(weight) for _ in range(ranks)]
        dist.all_gather(everyones, weight)
        assert all(torch.equal(each, weight) for each in everyones)
        say(type(model).__name__, accelerator.num_processes, dist.get_backend(), len(losses))
        """)
    assert output.count("DistributedDataParallel 2 hmc 2") == 2, output


def test_deepspeed():
    needs("deepspeed")
    output = job(2, """
        import deepspeed
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), dist_init_required=False, config={
            "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2},
            "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}}})
        for step in range(3):
            torch.manual_seed(10 * step + rank)
            loss = torch.nn.functional.mse_loss(engine(torch.randn(4, 8)), torch.randn(4, 1))
            engine.backward(loss)
            engine.step()
        weight = next(engine.module.parameters()).detach()
        everyones = [torch.empty_like(weight) for _ in range(ranks)]
        dist.all_gather(everyones, weight)
        assert all(torch.equal(each, weight) for each in everyones)
        say("trained by DeepSpeed over", dist.get_backend())
        """, environment={"DS_ACCELERATOR": "cpu"})
    assert output.count("trained by DeepSpeed over hmc") == 2, output
