"""A product with laid-out weights is the plain one, whatever the shapes and the type."""

import pytest
import torch
from torch.nn import functional

from retriever.products import product


@pytest.mark.parametrize("rows", [1, 3, 65, 257])
@pytest.mark.parametrize("given", [1, 7, 64])
def test_it_is_exact_in_float32_for_every_shape(rows, given):
    torch.manual_seed(0)
    weight, hidden = torch.randn(rows, 96), torch.randn(given, 96)
    assert torch.allclose(product(weight)(hidden), hidden @ weight.T, atol=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
@pytest.mark.parametrize("gelu", [False, True])
def test_bias_and_gelu_follow_in_the_type_of_the_weights(dtype, tolerance, gelu):
    torch.manual_seed(0)
    weight, bias, hidden = torch.randn(33, 64), torch.randn(33), torch.randn(5, 64)
    made = product(weight.to(dtype), bias.to(dtype), gelu=gelu)(hidden)
    expected = functional.linear(hidden, weight, bias)
    assert made.dtype == dtype
    assert torch.allclose(made.float(), functional.gelu(expected) if gelu else expected, atol=tolerance)
