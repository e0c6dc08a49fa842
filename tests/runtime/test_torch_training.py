"""Compiled layers in what PyTorch trains with: data parallel, optimizers, scaled losses."""

import copy

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from hetune.variants.runtime.compile_layer import compile_layer

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture
def pair(rgcn):
    """A compiled layer, and the same one as it is."""
    return compile_layer(copy.deepcopy(rgcn), backend="torch", expected_runs=1), rgcn


def gradients(model):
    return [p.grad for p in model.parameters()]


@pytest.fixture
def process_group(tmp_path):
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def test_data_parallel_reduces_gradients_once(pair, x, edges, process_group):
    """Its hooks see each gradient when it is whole: the last of those that are added up."""
    fast, plain = pair
    parallel, reduced = DistributedDataParallel(fast), []

    def reduce(state, bucket):
        reduced.append(bucket.buffer().clone())
        done = torch.futures.Future()
        done.set_result(2 * bucket.buffer())
        return done

    parallel.register_comm_hook(None, reduce)
    with parallel.no_sync():
        parallel(x, *edges).square().sum().backward()
    assert not reduced
    parallel(x, *edges).square().sum().backward()
    assert fast.status().has_gradients
    plain(x, *edges).square().sum().backward()
    assert sum(len(each) for each in reduced) == sum(p.numel() for p in plain.parameters())
    for found, once in zip(gradients(fast), gradients(plain), strict=True):
        torch.testing.assert_close(found, 4 * once, **CLOSE)


OPTIMIZERS = {
    "momentum": lambda given: torch.optim.SGD(given, 1e-3, momentum=0.9, nesterov=True),
    "fused": lambda given: torch.optim.AdamW(given, 1e-2, fused=True),
    "closures": lambda given: torch.optim.LBFGS(given, max_iter=3, line_search_fn="strong_wolfe"),
    "averages": lambda given: torch.optim.Adagrad(given, 1e-2, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_find_the_same_weights(name, pair, x, edges):
    """In place, so that kernels must read what was written; some weights stay as they are."""
    for model in pair:
        model.bias.requires_grad_(False)
        optimizer = OPTIMIZERS[name]([p for p in model.parameters() if p.requires_grad])

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x, *edges).square().mean()
            loss.backward()
            return loss

        for _ in range(4):
            optimizer.step(closure)
    fast, plain = pair
    assert fast.status().has_gradients
    assert fast.bias.grad is None
    for found, wanted in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, **CLOSE)


def test_losses_are_scaled_gradients_clipped_and_averages_kept(pair, x, edges):
    """As where small gradients would vanish in 16 bits; overflow skips a step."""
    fast, _ = pair
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(fast.parameters(), 1e-2)
    average = torch.optim.swa_utils.AveragedModel(fast)
    before = fast.weight.detach().clone()
    for scale in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = fast(x, *edges).float().square().mean() * scale
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(fast.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        average.update_parameters(fast)
        assert fast.weight.isfinite().all()
    assert scaler.get_scale() == 2.0**9
    assert not torch.equal(fast.weight, before)
    with torch.no_grad():
        torch.testing.assert_close(average(x, *edges), average.module.module(x, *edges), **CLOSE)
