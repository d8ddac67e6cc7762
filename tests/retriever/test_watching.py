"""The watch over published indexes goes on whatever opening one of them raises, and tries again where it may go well now."""

import asyncio

import pytest

from parallelsearch.errors import IndexMismatch, UpstreamUnavailable
from retriever.places import Published
from retriever.watching import Watch


class Places:
    """Two indexes, published once."""

    def __init__(self):
        self.named = ["notes"]
        self.files = {"vectors.npy": [1, 1, 1]}

    def names(self):
        return self.named

    def published(self, name):
        return Published(f"fingerprint of {name}", self.files)


def watch(places, serve, blamed, listed=lambda names: None):
    return Watch(places, 0.01, serve, lambda name, detail: blamed.append((name, detail)), listed)


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), MemoryError("none left"), ValueError("odd file")])
async def test_an_index_that_cannot_be_opened_is_blamed_once_and_the_others_are_served(error):
    served, blamed = [], []

    async def serve(name):
        if not name:
            raise error
        served.append(name)

    watching = watch(Places(), serve, blamed)
    watching.start()
    await asyncio.sleep(0.2)
    await watching.stop()
    assert served == ["notes"]
    assert blamed == [("", f"{type(error).__name__}: {error}")]


async def test_what_may_pass_is_tried_again_until_it_goes_well():
    tries, blamed = [], []

    async def serve(name):
        tries.append(name)
        if tries.count(name) < 4:
            raise UpstreamUnavailable("Milvus does not answer.")

    watching = watch(Places(), serve, blamed)
    watching.start()
    await asyncio.sleep(0.3)
    await watching.stop()
    assert (tries.count(""), tries.count("notes")) == (4, 4)


async def test_a_folder_that_is_copied_here_is_tried_again_once_its_files_are_still():
    class Copied(Places):
        looks = 0

        def names(self):
            return []

        def published(self, name):
            self.looks += 1
            return Published("one", {"vectors.npy": [min(self.looks, 12), 1, 1]})

    places, tries = Copied(), []

    async def serve(name):
        tries.append(places.looks)
        if places.looks < 12:
            raise IndexMismatch("vectors.npy is too short")

    watching = watch(places, serve, [])
    watching.start()
    await asyncio.sleep(0.4)
    await watching.stop()
    assert places.looks > 15
    assert tries == [1, 13]


async def test_an_index_that_is_gone_and_back_is_tried_anew():
    places, blamed, listed = Places(), [], []

    async def serve(name):
        if name:
            raise IndexMismatch("damaged")

    watching = watch(places, serve, blamed, lambda names: listed.append(tuple(names)))
    watching.start()
    for names in (["notes"], [], ["notes"]):
        places.named = names
        await asyncio.sleep(0.1)
    await watching.stop()
    assert blamed == [("notes", "damaged")] * 2
    assert list(dict.fromkeys(listed)) == [("notes",), ()]


async def test_a_folder_that_cannot_be_listed_for_a_while_ends_no_watch():
    class Unsteady(Places):
        looks = 0

        def names(self):
            self.looks += 1
            if self.looks < 5:
                raise OSError(116, "Stale file handle")
            return ["notes"]

    served = []

    async def serve(name):
        served.append(name)

    watching = watch(Unsteady(), serve, [])
    watching.start()
    await asyncio.sleep(0.3)
    await watching.stop()
    assert served == ["", "notes"]
