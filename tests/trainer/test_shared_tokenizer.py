"""Copies of a tokenizer that one process hands another are unpacked once."""

import copyreg
import pickle

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from trainer.shared_tokenizer import share, unpacked

TEXT = "who is older [SEP] who is it"


@pytest.fixture
def sharing():
    before = copyreg.dispatch_table.copy()
    share()
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(before)
    unpacked.cache_clear()


def a_tokenizer(*words):
    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(("[UNK]", *words))}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens([AddedToken("[SEP]", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", sep_token="[SEP]")


def test_copies_share_the_vocabulary_and_nothing_else(sharing):
    sent = a_tokenizer("who", "is", "older")
    first, sent.padding_side = pickle.loads(pickle.dumps(sent)), "left"
    second = pickle.loads(pickle.dumps(sent))

    assert first.backend_tokenizer is second.backend_tokenizer is not sent.backend_tokenizer
    assert (first is second, first.padding_side, second.padding_side) == (False, "right", "left")
    for copy in (first, second):
        assert copy(text=TEXT).input_ids == sent(text=TEXT).input_ids
        assert copy.decode(copy(text=TEXT).input_ids) == sent.decode(sent(text=TEXT).input_ids)
        assert copy.all_special_tokens == sent.all_special_tokens


def test_other_tokenizers_are_others(sharing):
    one, other = (pickle.loads(pickle.dumps(a_tokenizer(*words))) for words in (("who", "is"), ("is", "who")))
    assert one.convert_tokens_to_ids("who") != other.convert_tokens_to_ids("who")


def test_one_that_has_changed_since_is_another(sharing):
    sent = a_tokenizer("who")
    before = pickle.loads(pickle.dumps(sent))
    sent.add_tokens(["older"])
    after = pickle.loads(pickle.dumps(sent))
    assert (before.convert_tokens_to_ids("older"), after.convert_tokens_to_ids("older")) == (0, sent.convert_tokens_to_ids("older"))
