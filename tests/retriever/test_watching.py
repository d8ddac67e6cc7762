"""The watch over published indexes goes on whatever opening one of them raises."""

import asyncio

import pytest

from retriever.watching import Watch


class Places:
    """Two indexes, published once."""

    def names(self):
        return ["notes"]

    def fingerprint(self, name):
        return f"fingerprint of {name}"


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), MemoryError("none left"), ValueError("odd file")])
async def test_an_index_that_cannot_be_opened_is_blamed_once_and_the_others_are_served(error):
    served, blamed = [], []

    async def serve(name):
        if not name:
            raise error
        served.append(name)

    watch = Watch(Places(), 0.01, serve, lambda name, detail: blamed.append((name, detail)))
    watch.start()
    await asyncio.sleep(0.2)
    await watch.stop()
    assert served == ["notes"]
    assert blamed == [("", f"{type(error).__name__}: {error}")]
