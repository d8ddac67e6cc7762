"""How far each update goes: the learning rates of a run, by OpenRLHF's own code of both versions."""

import sys

import pytest
import torch
from openrlhf_training import run_of, training_code

RATE = 0.125
RUNS = [
    ({"algorithm": "grpo", "learning_rate": RATE}, "actor"),
    ({"algorithm": "ppo", "critic_learning_rate": RATE}, "critic"),
    ({"kind": "supervised", "learning_rate": RATE}, None),
]


def rates_of(load, args, role, steps):
    """The learning rate at each optimizer step, with DeepSpeed's order of things: the optimizer, then the schedule."""
    given = getattr(args, role) if role else args
    configuration = {
        "optim": given.optim,
        "adam": vars(given.adam),
        "lr_scheduler": given.lr_scheduler,
        "lr_warmup_ratio": given.lr_warmup_ratio,
        "min_lr_ratio": given.min_lr_ratio,
        "scheduler_steps": steps,
    }
    strategy = object.__new__(load("openrlhf.utils.deepspeed.deepspeed").DeepspeedStrategy)
    strategy.ds_tensor_parallel_size, strategy.deepcompile = 1, False
    strategy.get_ds_train_config = lambda **_: {}

    def initialize(model, optimizer, model_parameters, lr_scheduler, **_):
        optimizer = torch.optim.AdamW(model_parameters, lr=given.adam.lr)
        return model, optimizer, None, lr_scheduler(optimizer)

    sys.modules["deepspeed"].initialize = initialize
    _, optimizer, scheduler = strategy.prepare((torch.nn.Linear(2, 2), configuration))
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(("changes", "role"), RUNS, ids=["actor", "critic", "cold start"])
def test_every_step_of_a_run_changes_the_model(openrlhf, changes, role):
    _, args = run_of(openrlhf, **changes)
    with training_code(openrlhf.sources) as load:
        rates = {steps: rates_of(load, args, role, steps) for steps in (1, 2, 12, 70)}

    assert rates[1] == [RATE]
    for steps, found in rates.items():
        assert min(found) > 0.09 * RATE, steps
        assert max(found) == RATE
    assert rates[70][:3] == pytest.approx([RATE / 3, RATE * 2 / 3, RATE])
    assert rates[70][-1] == pytest.approx(RATE / 10)
