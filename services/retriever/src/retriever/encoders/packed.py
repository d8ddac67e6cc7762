"""The forward pass of a BERT over texts laid end to end: no padding but inside attention, and few, large operations.

What a library's own forward does for one text is mostly its overhead, and for many texts partly padding; here both are left
out. Sums, normalisations and the residual stream stay in float32, matrix products run in the type that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import BertModel

from retriever.products import Product, product

Pooling = Literal["mean", "cls"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls")
_TOKENS_STEP, _LENGTH_STEP = 16, 8
"""Shapes are rounded up to these: oneDNN makes, and keeps, machine code for every shape that it meets."""
_MASKED = -1e4


class PackedBert:
    """The layers of a loaded `BertModel`, copied in the layout used here; the model is not needed any more."""

    def __init__(self, model: BertModel, dtype: torch.dtype, device: torch.device, pooling: Pooling) -> None:
        self.device, self._pooling = device, pooling
        self._heads = model.config.num_attention_heads
        self._epsilon = model.config.layer_norm_eps
        embeddings = model.embeddings
        with torch.no_grad():
            places = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
            self._places = places.float().to(device)
            self._embedded_norm = _Norm.of(embeddings.LayerNorm, device)
            self._layers = [_Layer.of(layer, dtype, device) for layer in model.encoder.layer]

    @staticmethod
    def fits(model: Any, pooling: str) -> bool:
        """Whether this gives what the model's own forward gives."""
        if type(model) is not BertModel:
            return False
        return model.config.hidden_act == "gelu" and not model.config.is_decoder and pooling in POOLINGS

    def __call__(self, words: Tensor, lengths: Sequence[int]) -> Tensor:
        """One row per text, shape (texts, width), float32. `words`: word embeddings of all tokens, shape (tokens, width)."""
        texts = _Texts.of(lengths, self.device)
        words = functional.pad(words, (0, 0, 0, len(texts.places) - len(words)))
        hidden = self._embedded_norm(words + self._places.index_select(0, texts.places), self._epsilon)
        for layer in self._layers:
            attended = layer.out(self._attention(layer.query_key_value(hidden), texts))
            hidden = layer.attention_norm(attended + hidden, self._epsilon)
            hidden = layer.norm(layer.down(layer.up(hidden)) + hidden, self._epsilon)
        if self._pooling == "cls":
            return hidden.index_select(0, texts.starts)
        return torch.segment_reduce(hidden[: sum(lengths)], "mean", lengths=texts.lengths, unsafe=True)

    def _attention(self, joined: Tensor, texts: _Texts) -> Tensor:
        """`joined`: queries, keys and values side by side, shape (tokens, 3 × width)."""
        width, count = joined.shape[1] // 3, len(texts.lengths)
        shaped = joined.index_select(0, texts.padded).view(count, -1, 3, self._heads, width // self._heads)
        split, mask = shaped.permute(2, 0, 3, 1, 4), texts.mask.to(joined.dtype)
        attended = functional.scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=mask)
        return attended.transpose(1, 2).reshape(-1, width).index_select(0, texts.real)


@dataclass(frozen=True, slots=True)
class _Texts:
    """Where each text lies among the tokens, whose number is rounded up with copies of the first that nobody looks at."""

    lengths: Tensor
    starts: Tensor
    places: Tensor
    """Of each token within its text."""
    padded: Tensor
    """Which token stands where in the shape (texts, length) that attention needs; token 0 where none does."""
    real: Tensor
    """Where each token stands in that shape."""
    mask: Tensor

    @staticmethod
    def of(lengths: Sequence[int], device: torch.device) -> _Texts:
        held = np.asarray(lengths)
        starts = np.cumsum(held) - held
        steps = np.arange(-(-held.max() // _LENGTH_STEP) * _LENGTH_STEP)
        filled = steps < held[:, None]
        more = -held.sum() % _TOKENS_STEP

        def there(values: NDArray[Any]) -> Tensor:
            return torch.from_numpy(values).to(device)

        return _Texts(
            lengths=there(held),
            starts=there(starts),
            places=there(np.pad(np.broadcast_to(steps, filled.shape)[filled], (0, more))),
            padded=there(np.where(filled, starts[:, None] + steps, 0).ravel()),
            real=there(np.pad(np.flatnonzero(filled), (0, more))),
            mask=there(np.where(filled, 0.0, _MASKED).astype(np.float32)[:, None, None, :]),
        )


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Tensor
    bias: Tensor

    @staticmethod
    def of(norm: torch.nn.LayerNorm, device: torch.device) -> _Norm:
        return _Norm(norm.weight.detach().float().to(device), norm.bias.detach().float().to(device))

    def __call__(self, hidden: Tensor, epsilon: float) -> Tensor:
        return functional.layer_norm(hidden, self.weight.shape, self.weight, self.bias, epsilon)


@dataclass(frozen=True, slots=True)
class _Layer:
    query_key_value: Product
    out: Product
    attention_norm: _Norm
    up: Product
    down: Product
    norm: _Norm

    @staticmethod
    def of(layer: torch.nn.Module, dtype: torch.dtype, device: torch.device) -> _Layer:
        inner, outer = layer.attention.self, layer.attention.output
        parts = (inner.query, inner.key, inner.value)
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])

        def linear(weight: Tensor, bias: Tensor, *, gelu: bool = False) -> Product:
            return product(weight.detach().to(device, dtype), bias.detach().to(device, dtype), gelu=gelu)

        return _Layer(
            linear(weight, bias),
            linear(outer.dense.weight, outer.dense.bias),
            _Norm.of(outer.LayerNorm, device),
            linear(layer.intermediate.dense.weight, layer.intermediate.dense.bias, gelu=True),
            linear(layer.output.dense.weight, layer.output.dense.bias),
            _Norm.of(layer.output.LayerNorm, device),
        )
