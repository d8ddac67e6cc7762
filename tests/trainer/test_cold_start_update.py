"""What a cold start really learns: the gradient of OpenRLHF's own SFT loop, of both versions, over our data set."""

import torch
from agent_rollouts import ANSWER, SEARCH, TOKENIZER
from openrlhf_step import Strategy, gradient_of, tiny_model
from openrlhf_training import run_of, training_code

from trainer.sft import ColdStartDataset, counting

OBSERVATION = "\n\n<information>Doc 1(Title: Monet) born 1840</information>\n\n"
ROWS = [
    {"prompt": "Who?", "segments": [("policy", SEARCH), ("environment", OBSERVATION), ("policy", ANSWER)]},
    {"prompt": "Who is it?", "segments": [("policy", "<answer> a </answer>")]},
    {"prompt": "W", "segments": [("policy", SEARCH), ("environment", 9 * OBSERVATION), ("policy", "<answer> b </answer>")]},
    {"prompt": "When?", "segments": [("policy", ANSWER)]},
]


def meant(model):
    """The mean over every token that the policy wrote, and its end, of how unlikely it was; each row by itself, without padding."""
    losses = []
    for row in ROWS:
        message = [{"role": "user", "content": row["prompt"]}]
        tokens = TOKENIZER.encode(TOKENIZER.apply_chat_template(message, tokenize=False, add_generation_prompt=True))
        chosen = [False] * len(tokens)
        for author, text in [*row["segments"], ("policy", TOKENIZER.eos_token)]:
            added = TOKENIZER.encode(text)
            tokens, chosen = tokens + added, chosen + [author == "policy"] * len(added)
        ids = torch.tensor(tokens)
        log_probabilities = model(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        losses.append(-log_probabilities[torch.tensor(chosen)[1:]])
    model.zero_grad()
    torch.cat(losses).mean().backward()
    return gradient_of(model)


def test_a_cold_start_learns_each_of_the_policys_tokens_alike_and_no_other(openrlhf):
    _, args = run_of(openrlhf, kind="supervised", batch=4, micro_batch=2)
    args.logger.tensorboard_dir = None
    rows = [
        {"prompt": row["prompt"], "segments": [{"author": author, "text": text} for author, text in row["segments"]]}
        for row in ROWS
    ]
    model, steps, strategy = tiny_model(len(TOKENIZER), 0), [], Strategy(args, accumulated_gradient=2)
    model.global_steps = 1
    data = ColdStartDataset(rows, TOKENIZER, args.data.max_len, strategy)
    loader = torch.utils.data.DataLoader(
        data, args.train.micro_batch_size, shuffle=True, drop_last=True, collate_fn=data.collate_fn
    )
    with training_code(openrlhf.sources) as load:
        actor = load("openrlhf.models").Actor(model)
        actor.packing_samples = False
        trainer_class = counting(load("openrlhf.trainer.sft_trainer").SFTTrainer, steps)
        schedule = type("Schedule", (), {"get_last_lr": lambda _: [0.0]})()
        trainer_class(actor, strategy, None, loader, None, schedule, max_epochs=1, tokenizer=TOKENIZER).fit(args)
    found = gradient_of(model)

    assert steps == [1]
    assert found.norm() > 0.01
    assert torch.allclose(found, meant(model), atol=1e-5 * found.abs().max().item())
