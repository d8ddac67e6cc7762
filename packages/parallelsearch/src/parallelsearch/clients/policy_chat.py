"""The policy as text over `/v1/chat/completions`, for servers that have no more than that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parallelsearch.clients.policy_http import Json, PolicyHttp, count, first_choice, identity
from parallelsearch.protocol.tags import CLOSING_TAGS
from parallelsearch.rollout.interfaces import Generation, OnText, Sampling, Segment

CHARACTERS_PER_TOKEN = 3


class ChatPolicyClient:
    """Implements `Policy`; tokens are estimated from characters, on the safe side. The server must go on with a last message."""

    def __init__(self, http: PolicyHttp, model: str) -> None:
        self._http = http
        self._model = model

    async def count(self, text: str) -> int:
        return -(-len(text) // CHARACTERS_PER_TOKEN)

    async def truncate(self, text: str, max_tokens: int) -> str:
        return text[: max_tokens * CHARACTERS_PER_TOKEN]

    async def count_prompt(self, prompt: str) -> int:
        return await self.count(prompt)

    async def generate(
        self, prompt: str, segments: Sequence[Segment], sampling: Sampling, *, on_text: OnText | None = None
    ) -> Generation:
        body = self._body(prompt, segments, sampling)
        if on_text is not None:
            return await self._generate_streaming(body, on_text)
        answer, headers = await self._http.post("v1/chat/completions", body)
        choice = first_choice(answer)
        return self._generation(_content(choice.get("message")), choice.get("finish_reason"), answer.get("usage"), headers)

    def _body(self, prompt: str, segments: Sequence[Segment], sampling: Sampling) -> Json:
        messages = [{"role": "user", "content": prompt}]
        body: Json = {
            "model": self._model,
            "messages": messages,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "stop": list(sampling.stop),
            "include_stop_str_in_output": True,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if segments:
            messages.append({"role": "assistant", "content": "".join(segment.text for segment in segments)})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    async def _generate_streaming(self, body: Json, on_text: OnText) -> Generation:
        pieces: list[str] = []
        finish_reason, usage = None, None
        async with self._http.stream("v1/chat/completions", body) as answer:
            async for chunk in answer.chunks:
                usage = chunk.get("usage") or usage
                if not chunk.get("choices"):
                    continue
                choice = first_choice(chunk)
                finish_reason = choice.get("finish_reason") or finish_reason
                if text := _content(choice.get("delta") or choice.get("message")):
                    pieces.append(text)
                    on_text(text)
        return self._generation("".join(pieces), finish_reason, usage, answer.headers)

    def _generation(self, text: str, finish_reason: object, usage: object, headers: Mapping[str, str]) -> Generation:
        return Generation(
            text=close_block(text) if finish_reason == "stop" else text,
            prompt_tokens=count(usage, "prompt_tokens"),
            completion_tokens=count(usage, "completion_tokens"),
            identity=identity(self._model, headers),
        )


def _content(message: object) -> str:
    return str(message.get("content") or "") if isinstance(message, dict) else ""


def close_block(text: str) -> str:
    """Puts back the closing tag that a server without `include_stop_str_in_output` has cut off: that of the block opened last."""
    last = max(CLOSING_TAGS, key=lambda closing: text.rfind(closing.replace("/", "")))
    return text + last if text.rfind(last.replace("/", "")) > text.rfind(last) else text
