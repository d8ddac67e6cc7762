"""The trainer's contract: what a training run is to do, and what the trainer says about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AllowInfNan,
    Field,
    HttpUrl,
    Strict,
    StrictBool,
    StrictInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from parallelsearch.protocol.observations import Layout
from parallelsearch.reward.scoring import Preset
from parallelsearch.reward.terms import MAX_ALPHA, MAX_FORMAT, MAX_WEIGHT
from parallelsearch.rollout.settings import PaperCut
from parallelsearch.rollout.types import Mode
from parallelsearch.schemas.base import CleanText, NonBlankText, WireModel


def _on_one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be on one line, without control characters")
    return text


def _address(text: str) -> str:
    try:
        HttpUrl(text)
    except ValidationError:
        raise ValueError("is no address of the form http://host:port") from None
    return text


Place = Annotated[NonBlankText, Field(max_length=1_024), AfterValidator(_on_one_line)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Positive = Annotated[StrictInt, Field(ge=1)]
Finite = Annotated[float, AllowInfNan(False), Strict()]
Fraction = Annotated[Finite, Field(ge=0.0, le=1.0)]
MAX_LISTED = 1_000
"""Runs in one answer."""
MAX_PROMPTS = 1_000_000
MAX_SAMPLES = 1_024
"""Of more equal rewards the mean is not exact where it is learnt from."""
MAX_TOKENS = 1_048_576
Weight = Annotated[Finite, Field(ge=0, le=MAX_WEIGHT)]


class Algorithm(StrEnum):
    GRPO = "grpo"
    PPO = "ppo"
    REINFORCE_BASELINE = "reinforce_baseline"


class LauncherName(StrEnum):
    LOCAL = "local"
    RAY = "ray"
    KUBERNETES = "kubernetes"


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}


class WeightsSpec(WireModel):
    """λd, α, λs and the format weight of the reward."""

    decomposition: Weight = 0.15
    alpha: Annotated[Finite, Field(ge=0, le=MAX_ALPHA)] = 3.0
    search_count: Weight = 0.35
    format: Annotated[Finite, Field(ge=0, le=MAX_FORMAT)] = 0.1


class RewardSpec(WireModel):
    preset: Preset = Preset.STRICT
    weights: WeightsSpec = WeightsSpec()
    function: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$")] | None = Field(
        default=None, description="A reward of your own, `package.module:function` (parallelsearch.reward.scoring.RewardFunction)."
    )


class RolloutSpec(WireModel):
    """Limits of a rollout. `context_tokens` bounds prompt, turns and observations together."""

    mode: Literal[Mode.PARALLEL, Mode.SEQUENTIAL] = Mode.PARALLEL
    layout: Layout = Layout.LABELLED
    top_k: StrictInt = Field(default=3, ge=1, le=20)
    max_turns: StrictInt = Field(default=4, ge=1, le=16)
    max_sub_queries: StrictInt = Field(default=8, ge=1, le=64)
    turn_tokens: StrictInt = Field(default=500, ge=8, le=MAX_TOKENS)
    context_tokens: StrictInt = Field(default=4_096, ge=256, le=MAX_TOKENS)
    observation_tokens: StrictInt = Field(default=1_000, ge=1, le=MAX_TOKENS, description="Up to two sub-queries.")
    observation_tokens_further: StrictInt = Field(default=250, ge=0, le=MAX_TOKENS, description="For each further one.")
    passage_words: StrictInt = Field(default=120, ge=1, le=MAX_TOKENS, description="Up to two sub-queries.")
    passage_words_wide: StrictInt = Field(default=60, ge=1, le=MAX_TOKENS, description="More than two.")
    paper_cut: PaperCut = Field(default="tag_safe", description="Whether the layout `paper` may cut the closing tag, as published.")
    temperature: Finite = Field(default=1.0, ge=0.01, le=2.0)
    concurrency: StrictInt = Field(default=64, ge=1, le=10_000, description="Searches in flight at most, per worker.")

    @model_validator(mode="after")
    def _a_turn_fits(self) -> RolloutSpec:
        if self.turn_tokens >= self.context_tokens:
            raise ValueError("turn_tokens must be smaller than context_tokens")
        return self


class LoraSpec(WireModel):
    rank: Positive = 24
    alpha: Positive = 48


class ResourcesSpec(WireModel):
    """GPUs, and how they are used. Colocated, policy, reference and vLLM share every GPU."""

    nodes: StrictInt = Field(default=1, ge=1, le=64)
    gpus_per_node: StrictInt = Field(default=1, ge=1, le=8)
    vllm_memory: Finite = Field(default=0.5, gt=0, le=1, description="The share of a GPU that vLLM may take.")
    vllm_cache_gib: Finite | None = Field(
        default=None, ge=0.01, le=1_024, description="GiB of it for keys and values; to be named where runs share a GPU."
    )
    sleep: StrictBool = Field(
        default=True, description="vLLM and DeepSpeed give their memory up while the other works; without it steps are shorter."
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    zero_stage: Literal[0, 1, 2, 3] = 2


def _check_shares(what: str, total: int, micro_batch: int, resources: ResourcesSpec) -> None:
    gpus = resources.nodes * resources.gpus_per_node
    if total % (micro_batch * gpus):
        raise ValueError(f"{total} {what} cannot be shared out to {gpus} GPUs in micro batches of {micro_batch}")


class EvaluationSpec(WireModel):
    data: Place | None = None
    every_steps: Positive = 20
    samples: StrictInt = Field(default=1, ge=1, le=MAX_SAMPLES)
    temperature: Finite = Field(default=0.0, ge=0.0, le=2.0)


class CheckpointSpec(WireModel):
    every_steps: Positive = 20
    keep: StrictInt = Field(default=3, ge=2, description="The last ones; the oldest goes before the next is written.")
    resume_from: Name | None = Field(default=None, description="The id of a run that broke off: goes on from its last checkpoint.")


class HealthSpec(WireModel):
    """What happens at a failure signature (see docs/training.md): flagged in the run, or the run stopped."""

    action: Literal["flag", "stop"] = "flag"
    window_steps: Positive = 10
    max_kl: Finite = Field(default=1.0, gt=0)
    max_length_growth: Finite = Field(default=3.0, gt=1)
    max_reward_drop: Finite = Field(default=0.5, gt=0)


class _RunSpec(WireModel):
    """What every kind of run says."""

    name: Name
    model: Place
    data: Place
    seed: StrictInt = Field(default=42, ge=0, le=2**31 - 1)
    launcher: LauncherName = LauncherName.LOCAL
    resources: ResourcesSpec = ResourcesSpec()
    checkpoints: CheckpointSpec = CheckpointSpec()
    wandb_project: Name | None = Field(default=None, description="Logs to W&B too, with the key that is where the run is.")


class ReinforcementSpec(_RunSpec):
    """Reinforcement learning. A step is `prompts_per_step` questions with `samples_per_prompt` rollouts each and one update."""

    kind: Literal["reinforcement"] = "reinforcement"
    algorithm: Algorithm = Algorithm.GRPO
    steps: StrictInt = Field(default=100, ge=1, le=100_000)
    prompts_per_step: Positive = 16
    samples_per_prompt: StrictInt = Field(default=4, ge=1, le=MAX_SAMPLES)
    micro_batch: Positive = 4
    learning_rate: Finite = Field(default=1e-6, gt=0, lt=1)
    critic_learning_rate: Finite = Field(default=1e-5, gt=0, lt=1)
    kl_coefficient: Finite = Field(default=0.001, ge=0, le=10)
    importance_correction: StrictBool = False
    reward: RewardSpec = RewardSpec()
    rollout: RolloutSpec = RolloutSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    health: HealthSpec = HealthSpec()
    retriever_url: Annotated[CleanText, Field(pattern=r"^https?://\S+$", max_length=512), AfterValidator(_address)] | None = Field(
        default=None, description="As every node reaches it; the trainer's own setting if left out."
    )

    @model_validator(mode="after")
    def _possible(self) -> ReinforcementSpec:
        if self.algorithm is not Algorithm.PPO and self.samples_per_prompt < 2:
            raise ValueError(f"{self.algorithm} compares rollouts of one question: samples_per_prompt must be at least 2")
        _check_shares("rollouts a step", self.prompts_per_step * self.samples_per_prompt, self.micro_batch, self.resources)
        if (prompts := self.steps * self.prompts_per_step) > MAX_PROMPTS:
            raise ValueError(f"steps times prompts_per_step is {prompts:,}: a run is dealt at most {MAX_PROMPTS:,} questions")
        return self


class SupervisedSpec(_RunSpec):
    """A cold start: supervised learning from trajectories (`data` is made by `trainer prepare-data`).

    With `lora` an adapter is learnt, and kept beside the whole model that it makes. Reinforcement learning has no such choice:
    after each step OpenRLHF hands vLLM all weights under the model's own names, which an adapted model does not have.
    """

    kind: Literal["supervised"] = "supervised"
    epochs: StrictInt = Field(default=1, ge=1, le=100)
    batch: Positive = 64
    micro_batch: Positive = 8
    max_tokens: StrictInt = Field(default=3_072, ge=64, le=MAX_TOKENS)
    learning_rate: Finite = Field(default=2e-4, gt=0, lt=1)
    lora: LoraSpec | None = None

    @model_validator(mode="after")
    def _possible(self) -> SupervisedSpec:
        _check_shares("samples a batch", self.batch, self.micro_batch, self.resources)
        if self.resources.nodes > 1:
            raise ValueError("resources.nodes: a cold start runs on one node")
        return self


TrainingRunSpec = Annotated[ReinforcementSpec | SupervisedSpec, Field(discriminator="kind")]
SPEC: TypeAdapter[ReinforcementSpec | SupervisedSpec] = TypeAdapter(TrainingRunSpec)


class TrainingRun(WireModel):
    """`detail` says why a run is where it is; a failed one carries the last lines of its log, a sick one its `flags`."""

    id: str
    state: RunState
    spec: TrainingRunSpec
    created_at: str
    started_at: str = ""
    finished_at: str = ""
    detail: str = ""
    last_log_lines: list[str] = []
    flags: list[str] = []


class TrainingRunList(WireModel):
    """`next` is the cursor of the runs that follow; null where there are none."""

    runs: list[TrainingRun]
    next: str | None = None


class DryRun(WireModel):
    """What would be started, and where: nothing was."""

    command: list[str]
    environment: dict[str, str]
    shell: str


class StepMetrics(WireModel):
    step: int
    values: dict[str, float]


class TrainingMetrics(WireModel):
    """Means over each step's rollouts; names as in docs/training.md, those by kind as `exact_match/parallel`."""

    steps: list[StepMetrics]


class Checkpoint(WireModel):
    step: int
    path: str
    bytes: int
    created_at: str


class CheckpointList(WireModel):
    checkpoints: list[Checkpoint]


class Promotion(WireModel):
    """The checkpoint that the policy service serves now, and the version it gave it."""

    step: int
    path: str
    version: str
