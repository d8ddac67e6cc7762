import torch

from retriever.gpu.ordering import Found, best, merge, padded


def test_equal_scores_go_to_the_lower_id_whatever_their_place():
    scores = torch.tensor([[0.5, 0.7, 0.7, 0.7, -1.0]])
    found = best(scores, torch.tensor([[4, 9, 3, 6, 0]]), 3)
    assert found.ids.tolist() == [[3, 6, 9]]
    assert found.scores.tolist() == scores[:, 1:4].tolist()


def test_negative_scores_and_both_zeros_are_in_order():
    found = best(torch.tensor([-0.25, 0.0, -0.0, -3.0]), torch.arange(4), 4)
    assert found.ids.tolist() == [1, 2, 0, 3]
    assert found.scores.tolist() == [0.0, 0.0, -0.25, -3.0]


def test_a_score_of_minus_infinity_is_nothing():
    found = best(torch.tensor([1.0, -torch.inf]), torch.arange(2), 2)
    assert found.ids.tolist() == [0, -1]


def test_merging_keeps_the_order_and_padding_says_that_there_is_no_more():
    one, other = Found(torch.tensor([[0.9, 0.1]]), torch.tensor([[5, 7]])), Found(torch.tensor([[0.9]]), torch.tensor([[2]]))
    merged = padded(merge([one, other], 5), 5)
    assert merged.ids.tolist() == [[2, 5, 7, -1, -1]]
    assert merged.scores[0, 3:].tolist() == [-torch.inf, -torch.inf]
