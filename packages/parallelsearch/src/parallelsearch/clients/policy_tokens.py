"""The policy with token ids over vLLM's `/v1/completions`: a context is never tokenised twice."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from parallelsearch.clients.local_tokens import LocalTokens
from parallelsearch.clients.policy_http import Json, PolicyHttp, count, first_choice, identity
from parallelsearch.clients.policy_routes import detokenize, token_ids, tokenize_message, tokenize_text
from parallelsearch.rollout.interfaces import Generation, OnText, Sampling, Segment

CACHED_TEXTS = 2_048


class TokenPolicyClient:
    """Implements `Policy`. What is not the policy's own is tokenised here by `local`, or by the policy's `/tokenize`."""

    def __init__(self, http: PolicyHttp, model: str, local: LocalTokens | None = None) -> None:
        self._http = http
        self._model = model
        self._local = local
        self._encoded: OrderedDict[tuple[str, bool], array[int]] = OrderedDict()

    async def count(self, text: str) -> int:
        return len(await self._encode(text))

    async def truncate(self, text: str, max_tokens: int) -> str:
        return await detokenize(self._http, self._model, list((await self._encode(text))[:max_tokens]))

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
        text, sampled = str(choice.get("text") or ""), _sampled(choice)
        return Generation(
            text=text,
            token_ids=sampled,
            prompt_tokens=len(context),
            completion_tokens=_completion_tokens(answer) or len(sampled) or await self.count(text),
            identity=identity(self._model, headers),
        )

    async def _generate_streaming(self, body: Json, prompt_tokens: int, on_text: OnText) -> Generation:
        pieces: list[str] = []
        sampled: list[int] = []
        completion_tokens = 0
        async with self._http.stream("v1/completions", body) as answer:
            async for chunk in answer.chunks:
                completion_tokens = _completion_tokens(chunk) or completion_tokens
                if not chunk.get("choices"):
                    continue
                choice = first_choice(chunk)
                sampled += _sampled(choice)
                if text := str(choice.get("text") or ""):
                    pieces.append(text)
                    on_text(text)
        text = "".join(pieces)
        return Generation(
            text=text,
            token_ids=tuple(sampled),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens or len(sampled) or await self.count(text),
            identity=identity(self._model, answer.headers),
        )

    async def _encode(self, text: str, *, chat: bool = False) -> array[int]:
        """Token ids of a text, or of a user message through the chat template; the last few are kept, four bytes each."""
        key = (text, chat)
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        self._encoded[key] = array("I", await self._tokenize(text, chat=chat))
        if len(self._encoded) > CACHED_TEXTS:
            self._encoded.popitem(last=False)
        return self._encoded[key]

    async def _tokenize(self, text: str, *, chat: bool) -> tuple[int, ...]:
        if self._local is not None:
            return self._local.message(text) if chat else self._local.text(text)
        return await (tokenize_message if chat else tokenize_text)(self._http, self._model, text)


def _completion_tokens(answer: Json) -> int:
    return count(answer.get("usage"), "completion_tokens")


def _sampled(choice: Json) -> tuple[int, ...]:
    return token_ids(choice.get("token_ids") or [])
