"""From a run's specification to OpenRLHF's arguments: one pure function, checked against the pinned wheels' own parsers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from parallelsearch.schemas.training import Algorithm, LoraSpec, ReinforcementSpec, ResourcesSpec, SupervisedSpec

Version = Literal["0.11.2", "0.10.4"]
ESTIMATORS = {
    Algorithm.GRPO: "group_norm",
    Algorithm.PPO: "gae",
    Algorithm.REINFORCE_BASELINE: "reinforce_baseline",
}
WARM_UP = 0.03
SCHEDULE = "cosine_warmup_with_min_lr"
"""Ends its warm-up at the learning rate. OpenRLHF's default, `cosine_with_min_lr`, begins it at 0: of a run's steps the first would
change nothing."""
KL = {Algorithm.GRPO: ("k3", True), Algorithm.REINFORCE_BASELINE: ("k2", True), Algorithm.PPO: ("k1", False)}
"""The estimator, and whether KL is part of the loss; else it is part of the reward."""
REWARDS = ("-1000000", "1000000")
"""OpenRLHF clips rewards, less their group's mean where there is one, to 10 unless told otherwise: more than that would be one."""
MODEL = "model"
"""Where in its folder a run leaves what it ended with."""
LAST_STEP = "last_step"
"""The file in which a cold start says how many steps it made."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run reads and writes, as the processes of the run see it. `evaluation` is None where nothing is evaluated."""

    model: Path
    data: Path
    evaluation: Path | None
    folder: Path
    agent: Path
    resumed: Path | None = None
    """The folder of the run that this one goes on with: its checkpoints are read and added to."""

    @property
    def checkpoints(self) -> Path:
        return (self.resumed or self.folder) / "checkpoints"

    @property
    def output(self) -> Path:
        return self.folder / MODEL

    @property
    def tensorboard(self) -> Path:
        return self.folder / "tensorboard"


def openrlhf_command(spec: ReinforcementSpec | SupervisedSpec, paths: RunPaths, *, python: str, version: Version) -> list[str]:
    """The whole command. Flags of the two supported versions differ only where `version` is looked at."""
    tracking = _tracking(spec, paths)
    match spec:
        case ReinforcementSpec():
            return [python, "-m", "openrlhf.cli.train_ppo_ray", *_reinforcement(spec, paths, version), *tracking]
        case SupervisedSpec():
            gpus = str(spec.resources.gpus_per_node)
            launch = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", gpus, "-m", "trainer.sft"]
            return [*launch, *_supervised(spec, paths), *tracking]


def most_steps(spec: SupervisedSpec, rows: int, version: Version) -> int:
    """How many steps OpenRLHF makes of a cold start whose rows are all short enough. Of an epoch only whole micro batches of all
    GPUs count; 0.10.4 begins with fewer rows than a batch in no case."""
    if version == "0.10.4" and rows < spec.batch:
        return 0
    share = spec.micro_batch * spec.resources.gpus_per_node
    return rows // share * spec.epochs // (spec.batch // share)


def _reinforcement(spec: ReinforcementSpec, paths: RunPaths, version: Version) -> list[str]:
    rollouts = spec.prompts_per_step * spec.samples_per_prompt
    return [
        *_flags(
            ("actor.model_name_or_path", paths.model),
            ("train.agent_func_path", paths.agent),
            ("data.prompt_dataset", paths.data),
            ("data.input_key", "prompt"),
            ("data.label_key", "label"),
            ("data.apply_chat_template", True),
            ("data.max_len", spec.rollout.context_tokens),
            ("rollout.batch_size", spec.prompts_per_step),
            ("rollout.n_samples_per_prompt", spec.samples_per_prompt),
            ("rollout.micro_batch_size", spec.micro_batch),
            ("rollout.max_new_tokens", spec.rollout.turn_tokens),
            ("rollout.temperature", spec.rollout.temperature),
            ("train.batch_size", rollouts),
            ("train.micro_batch_size", spec.micro_batch),
            ("train.num_episodes", 1),
            ("train.max_epochs", 1),
            ("train.seed", spec.seed),
            ("ckpt.output_dir", paths.output),
        ),
        *_algorithm(spec),
        *_correction(spec, version),
        *_placement(spec.resources),
        *_deepspeed(spec.resources),
        *_checkpoints(spec, paths),
        *_evaluation(spec, paths),
    ]


def _algorithm(spec: ReinforcementSpec) -> list[str]:
    """PPO takes KL into the reward, as published. The reinforce baseline whitens what it learns from over a step: KL in the reward
    would be all of it, at full size, where all rollouts of each question are worth the same. So it stands in the loss, as in GRPO.
    """
    estimator, in_loss = KL[spec.algorithm]
    arguments = _flags(
        ("algo.advantage.estimator", ESTIMATORS[spec.algorithm]),
        ("algo.kl.init_coef", spec.kl_coefficient),
        ("algo.kl.use_loss", in_loss),
        ("algo.kl.estimator", estimator),
        ("actor.adam.lr", spec.learning_rate),
        ("actor.lr_scheduler", SCHEDULE),
        ("actor.lr_warmup_ratio", WARM_UP),
    )
    if spec.algorithm is Algorithm.PPO:
        arguments += _flags(
            ("critic.adam.lr", spec.critic_learning_rate),
            ("critic.lr_scheduler", SCHEDULE),
            ("critic.lr_warmup_ratio", WARM_UP),
        )
    return [*arguments, "--reward.clip_range", *REWARDS]


def _correction(spec: ReinforcementSpec, version: Version) -> list[str]:
    """Truncated importance sampling between vLLM's and the trainer's probabilities."""
    if not spec.importance_correction:
        return []
    if version == "0.10.4":
        return _flags(("algo.advantage.is_correction_enable", True), ("algo.advantage.is_correction_type", "tis"))
    return _flags(("algo.advantage.is_correction_level", "token"), ("algo.advantage.is_correction_mode", "clip"))


def _placement(resources: ResourcesSpec) -> list[str]:
    """All models share every GPU; vLLM sleeps while they train, unless there is room for both."""
    arguments = []
    for role in ("actor", "ref", "critic", "reward"):
        arguments += _flags((f"{role}.num_nodes", resources.nodes), (f"{role}.num_gpus_per_node", resources.gpus_per_node))
    return arguments + _flags(
        ("train.colocate_all", True),
        ("vllm.num_engines", resources.nodes * resources.gpus_per_node),
        ("vllm.tensor_parallel_size", 1),
        ("vllm.gpu_memory_utilization", resources.vllm_memory),
        ("vllm.enable_sleep", resources.sleep),
        ("vllm.enable_prefix_caching", True),
        ("vllm.sync_backend", "nccl"),
        ("ds.enable_sleep", resources.sleep),
    )


def _deepspeed(resources: ResourcesSpec) -> list[str]:
    return _flags(
        ("ds.zero_stage", resources.zero_stage),
        ("ds.param_dtype", "bf16"),
        ("ds.attn_implementation", resources.attention),
        ("ds.packing_samples", resources.attention == "flash_attention_2"),
    )


def _lora(lora: LoraSpec | None) -> list[str]:
    return [] if lora is None else _flags(("ds.lora.rank", lora.rank), ("ds.lora.alpha", lora.alpha))


def _checkpoints(spec: ReinforcementSpec | SupervisedSpec, paths: RunPaths) -> list[str]:
    """A cold start's models lie among the states that it could be resumed from, and OpenRLHF counts both."""
    folders = 2 if isinstance(spec, SupervisedSpec) else 1
    return _flags(
        ("ckpt.path", paths.checkpoints),
        ("ckpt.save_steps", spec.checkpoints.every_steps),
        ("ckpt.save_hf", True),
        ("ckpt.max_num", folders * spec.checkpoints.keep),
        ("ckpt.load_enable", paths.resumed is not None),
    )


def _evaluation(spec: ReinforcementSpec, paths: RunPaths) -> list[str]:
    """Steps alone decide what is saved; OpenRLHF would also save whenever an evaluation is the best so far."""
    if paths.evaluation is None:
        return []
    return _flags(
        ("eval.dataset", paths.evaluation),
        ("eval.steps", spec.evaluation.every_steps),
        ("eval.n_samples_per_prompt", spec.evaluation.samples),
        ("eval.temperature", spec.evaluation.temperature),
        ("ckpt.best_metric_key", "none"),
    )


def _supervised(spec: SupervisedSpec, paths: RunPaths) -> list[str]:
    return [
        *_flags(
            ("model.model_name_or_path", paths.model),
            ("data.dataset", paths.data),
            ("data.max_len", spec.max_tokens),
            ("train.batch_size", spec.batch),
            ("train.micro_batch_size", spec.micro_batch),
            ("train.max_epochs", spec.epochs),
            ("train.seed", spec.seed),
            ("adam.lr", spec.learning_rate),
            ("lr_scheduler", SCHEDULE),
            ("lr_warmup_ratio", WARM_UP),
            ("ckpt.output_dir", paths.output),
        ),
        *_deepspeed(spec.resources),
        *_lora(spec.lora),
        *_checkpoints(spec, paths),
    ]


def _tracking(spec: ReinforcementSpec | SupervisedSpec, paths: RunPaths) -> list[str]:
    """OpenRLHF logs to W&B if it is given a key, and uses it only where WANDB_API_KEY is not set; so the flag is no secret."""
    arguments = _flags(
        ("logger.tensorboard_dir", paths.tensorboard), ("logger.wandb.run_name", spec.name), ("logger.logging_steps", 1)
    )
    if spec.wandb_project is not None:
        arguments += _flags(("logger.wandb.project", spec.wandb_project), ("logger.wandb.key", "from-the-environment"))
    return arguments


def _flags(*pairs: tuple[str, object]) -> list[str]:
    """True is a bare flag, False none at all."""
    arguments: list[str] = []
    for name, value in pairs:
        if value is True:
            arguments.append(f"--{name}")
        elif value is not False:
            arguments += [f"--{name}", str(value)]
    return arguments
