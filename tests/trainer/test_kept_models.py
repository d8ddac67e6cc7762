"""How many of the models that a run writes are kept where OpenRLHF, too, removes old ones: its own code of both versions."""

import os

import pytest
from openrlhf_training import run_of, training_code

from trainer.exports import drop_old, exports

STEPS = 9


class Folder:
    """The checkpoints of a run, written as OpenRLHF's trainers do, each a second after the one before."""

    def __init__(self, path, strategy, engine, *, apart):
        self.path, self.now = path, 1_000_000
        self._save, self._engine, self._states = strategy.save_ckpt, engine, path / "_actor" if apart else path
        engine.save_checkpoint = lambda folder, tag, **_: self._make(self._states / tag)

    def _make(self, folder):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "adapter_model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")

    def _date(self, folder):
        self.now += 1
        os.utime(folder, (self.now, self.now))

    def write(self, step, args):
        self._save(self._engine, str(self._states), f"global_step{step}", args.ckpt.max_num, args.ckpt.max_mem, {})
        self._date(self._states / f"global_step{step}")
        self._make(self.path / f"global_step{step}_hf")
        self._date(self.path / f"global_step{step}_hf")

    def states(self):
        return [path.name for path in self._states.glob("global_step*") if not path.name.endswith("_hf")]


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("keep", [2, 3, 5])
@pytest.mark.parametrize("kind", ["supervised", "reinforcement"])
def test_the_last_models_are_kept_and_something_to_resume_from(openrlhf, tmp_path, kind, keep, watched):
    _, args = run_of(openrlhf, kind=kind, checkpoints={"keep": keep})
    with training_code(openrlhf.sources) as load:
        module = load("openrlhf.utils.deepspeed.deepspeed")
        strategy = object.__new__(module.DeepspeedStrategy)
        strategy.is_rank_0, strategy.print = lambda: True, lambda *_: None
        folder = Folder(tmp_path, strategy, module.deepspeed.DeepSpeedEngine(), apart=kind == "reinforcement")
        for step in range(1, STEPS + 1):
            folder.write(step, args)
            if watched:
                drop_old(tmp_path, keep)
            assert [export.step for export in exports(tmp_path)][-keep:] == list(range(max(1, step - keep + 1), step + 1))
            assert f"global_step{step}" in folder.states()
            # The oldest goes before the next is written, which may come to nothing.
            assert len(folder.states()) >= min(step, 2)

    assert len(folder.states()) <= 2 * keep
