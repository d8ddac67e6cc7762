"""Entry point of a cold start: OpenRLHF's SFT (`openrlhf.cli.train_sft`, all of its arguments) over cold-start files.

OpenRLHF tokenises a conversation as one text and learns whole assistant messages. A rollout is one assistant message in which
observations must not be learnt and are tokenised apart, so the data set is ours; all else is OpenRLHF's. An adapter that it learnt
is merged at the end.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from trainer.adapters import merge_adapter
from trainer.command import LAST_STEP, MODEL
from trainer.data.encoding import Encoded, encode
from trainer.data.rows import ColdStartRow

Item = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class ColdStartDataset(torch.utils.data.Dataset[Item]):  # type: ignore[misc]  # torch is not read for types
    """Stands in for OpenRLHF's `SFTDataset`. Rows longer than `max_length` tokens are left out, never cut."""

    def __init__(self, dataset: Any, tokenizer: Any, max_length: int, strategy: Any, **_: Any) -> None:
        self.tokenizer = tokenizer
        rows = (ColdStartRow.model_validate({"prompt": row["prompt"], "segments": row["segments"]}) for row in dataset)
        encoded = [encode(row, tokenizer) for row in rows]
        self.rows: list[Encoded] = [row for row in encoded if len(row.token_ids) <= max_length]
        strategy.print(f"cold start: {len(self.rows)} rows, {len(encoded) - len(self.rows)} left out over {max_length} tokens")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Item:
        row = self.rows[index]
        return torch.tensor([row.token_ids]), torch.ones(1, len(row.token_ids), dtype=torch.long), torch.tensor([row.loss_mask])

    def collate_fn(self, items: list[Item]) -> Item:
        """Three tensors of shape (batch, longest), padded on the right."""
        token_ids, attention, loss = ([part[0] for part in parts] for parts in zip(*items, strict=True))
        padding = float(self.tokenizer.pad_token_id)
        return (
            pad_sequence(token_ids, batch_first=True, padding_value=padding),
            pad_sequence(attention, batch_first=True),
            pad_sequence(loss, batch_first=True),
        )


def counting(trainer: type[Any], steps: list[int]) -> type[Any]:
    """OpenRLHF's trainer, which also says in `steps` which it has made."""

    class CountingTrainer(trainer):  # type: ignore[misc]
        def save_logs_and_checkpoints(self, args: Any, global_step: int, *rest: Any, **more: Any) -> Any:
            steps.append(int(global_step))
            return super().save_logs_and_checkpoints(args, global_step, *rest, **more)

    return CountingTrainer


def main() -> None:
    import openrlhf.datasets
    from openrlhf.trainer import sft_trainer

    steps: list[int] = []
    openrlhf.datasets.SFTDataset = ColdStartDataset
    sft_trainer.SFTTrainer = counting(sft_trainer.SFTTrainer, steps)
    runpy.run_module("openrlhf.cli.train_sft", run_name="__main__", alter_sys=True)
    if os.environ.get("RANK", "0") == "0":
        folder = Path(os.environ["TRAINER_RUN_FOLDER"])
        merge_adapter(folder / MODEL)
        if steps:
            (folder / LAST_STEP).write_text(str(steps[-1]))


if __name__ == "__main__":
    main()
