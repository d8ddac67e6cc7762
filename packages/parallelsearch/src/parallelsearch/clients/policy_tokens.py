"""The policy with token ids over vLLM's `/v1/completions` and `/tokenize`: a context is never tokenised twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from parallelsearch.clients.policy_http import Json, PolicyHttp, count, first_choice, identity
from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.rollout.interfaces import Generation, OnText, Sampling, Segment

CACHED_TEXTS = 2_048


class TokenPolicyClient:
    """Implements `Policy`."""

    def __init__(self, http: PolicyHttp, model: str) -> None:
        self._http = http
        self._model = model
        self._encoded: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()

    async def count(self, text: str) -> int:
        return len(await self._encode(text))

    async def truncate(self, text: str, max_tokens: int) -> str:
        tokens = (await self._encode(text))[:max_tokens]
        answer, _ = await self._http.post("detokenize", {"model": self._model, "tokens": tokens})
        return str(answer.get("prompt", ""))

    async def count_prompt(self, prompt: str) -> int:
        return len(await self._encode(prompt, chat=True))

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, *, on_text: OnText | None = None
    ) -> Generation:
        context = list(await self._encode(prompt, chat=True))
        for segment in segments:
            context += segment.token_ids if segment.token_ids is not None else await self._encode(segment.text)
        body = {
            "model": self._model,
            "prompt": context,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": sampling.stop,
            "include_stop_str_in_output": True,
            "return_token_ids": True,
            "add_special_tokens": False,
        }
        if on_text is not None:
            return await self._generate_streaming(body, len(context), on_text)
        answer, headers = await self._http.post("v1/completions", body)
        choice = first_choice(answer)
        token_ids = _token_ids(choice)
        return Generation(
            text=str(choice.get("text") or ""),
            token_ids=token_ids,
            prompt_tokens=len(context),
            completion_tokens=_completion_tokens(answer) or len(token_ids),
            identity=identity(self._model, headers),
        )

    async def _generate_streaming(self, body: Json, prompt_tokens: int, on_text: OnText) -> Generation:
        pieces: list[str] = []
        token_ids: list[int] = []
        completion_tokens = 0
        async with self._http.stream("v1/completions", body) as answer:
            async for chunk in answer.chunks:
                completion_tokens = _completion_tokens(chunk) or completion_tokens
                if not chunk.get("choices"):
                    continue
                choice = first_choice(chunk)
                token_ids += _token_ids(choice)
                if text := str(choice.get("text") or ""):
                    pieces.append(text)
                    on_text(text)
        return Generation(
            text="".join(pieces),
            token_ids=tuple(token_ids),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens or len(token_ids),
            identity=identity(self._model, answer.headers),
        )

    async def _encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        """Token ids of a text, or of a user message through the chat template; the last few are kept."""
        key = (text, chat)
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        body: Json = {"model": self._model}
        if chat:
            body |= {"messages": [{"role": "user", "content": text}], "add_generation_prompt": True}
        else:
            body |= {"prompt": text, "add_special_tokens": False}
        answer, _ = await self._http.post("tokenize", body)
        self._encoded[key] = _checked(answer.get("tokens"))
        if len(self._encoded) > CACHED_TEXTS:
            self._encoded.popitem(last=False)
        return self._encoded[key]


def _completion_tokens(answer: Json) -> int:
    return count(answer.get("usage"), "completion_tokens")


def _token_ids(choice: Json) -> tuple[int, ...]:
    return _checked(choice.get("token_ids") or [])


def _checked(tokens: object) -> tuple[int, ...]:
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise UpstreamUnavailable("The policy's answer holds something else for token ids.")
    return tuple(tokens)
