"""Renders errors as `application/problem+json` (RFC 9457), in one place.

A service names its own base class of errors in `create_app`; whatever derives from it and looks like `Problem` is rendered
here, as are FastAPI's validation errors and anything that nobody expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from servicekit.request_id import request_id

log = structlog.get_logger(__name__)

TYPE_PREFIX = "urn:parallelsearch:problem:"
UNREADABLE_BODY = "There was an error parsing the body"
"""What FastAPI says of bytes that are not UTF-8."""
UNKNOWN_FORM = frozenset({"union_tag_invalid", "union_tag_not_found"})
"""The field that says which of several forms a body has holds none of them, or is not there."""
IN_JSON = {"list_type": "Input should be a valid array", "dict_type": "Input should be a valid object"}
"""What pydantic calls by Python's names where the JSON was read beforehand."""
_ENUM = re.compile(r"<[\w.]+: ('[^']*')>")
UNEXPECTED = "An unexpected error happened. The service's log has the details under this request id."
UNSAID = {
    404: "There is nothing at this path; /docs lists what there is.",
    405: "This path does not take this method; `Allow` names those that it takes.",
}
"""Where the framework says no more than the status."""
TITLES = {401: "Unauthorized", 403: "Forbidden", 404: "Not found", 405: "Method not allowed", 413: "Content too large"}


class Problem(Protocol):
    """What an error must carry to be rendered."""

    @property
    def code(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def detail(self) -> str: ...
    @property
    def retry_after_s(self) -> float | None: ...
    @property
    def extensions(self) -> Mapping[str, Any]: ...


def problem_response(
    *,
    code: str,
    title: str,
    status: int,
    detail: str,
    retry_after_s: float | None = None,
    extensions: Mapping[str, Any] | None = None,
) -> Response:
    """The RFC 9457 body with a stable `type`, the request id, and Retry-After (whole seconds, at least 1) where given."""
    body = _body(code, title, status, detail, extensions)
    return Response(orjson.dumps(body), status, error_headers(status, retry_after_s), media_type="application/problem+json")


def _body(code: str, title: str, status: int, detail: str, extensions: Mapping[str, Any] | None) -> dict[str, Any]:
    body = {"type": TYPE_PREFIX + code, "title": title, "status": status, "detail": detail}
    return body | {"request_id": request_id(), **(extensions or {})}


def error_headers(status: int, retry_after_s: float | None) -> dict[str, str]:
    """Retry-After in whole seconds, at least 1, and never less than has to be waited; for a 401 what it asks for."""
    waiting = {} if retry_after_s is None else {"Retry-After": str(max(1, math.ceil(retry_after_s)))}
    return waiting | ({"WWW-Authenticate": "Bearer"} if status == 401 else {})


def problem_body(error: Problem) -> dict[str, Any]:
    """The RFC 9457 body of an error, for answers that have begun already."""
    return _body(error.code, error.title, error.status, error.detail, error.extensions)


def documented(statuses: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route: which problems it answers with, and when."""
    fields = {"type": "string", "title": "string", "status": "integer", "detail": "string", "request_id": "string"}
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}, "required": list(fields)}
    content = {"application/problem+json": {"schema": schema}}
    return {status: {"description": when, "content": content} for status, when in statuses.items()}


def render(error: Problem) -> Response:
    return problem_response(
        code=error.code,
        title=error.title,
        status=error.status,
        detail=error.detail,
        retry_after_s=error.retry_after_s,
        extensions=error.extensions,
    )


def invalid_fields(error: RequestValidationError) -> list[dict[str, str]]:
    """`field` as a dotted path and `message`, for each fault."""
    faults = []
    for fault in error.errors():
        where = [] if fault["type"] == "json_invalid" else _where(fault, error.body)
        faults.append({"field": ".".join(where) or "body", "message": said(fault)})
    return faults or [{"field": "body", "message": "is not valid"}]


def _where(fault: Mapping[str, Any], body: Any) -> list[str]:
    """The way to the field in the body that was sent: of several forms pydantic puts the one's name between that it went by."""
    parts, is_missing = [part for part in fault["loc"] if part != "body"], fault["type"] == "missing"
    where: list[str] = []
    at = body if fault["loc"][0] == "body" else None
    for number, part in enumerate(parts, start=1):
        if isinstance(at, dict) and part not in at and not (is_missing and number == len(parts)):
            continue
        where.append(str(part))
        at = at[part] if isinstance(at, dict | list) and _has(at, part) else None
    return [*where, fault["ctx"]["discriminator"].strip("'")] if fault["type"] in UNKNOWN_FORM else where


def _has(at: dict[Any, Any] | list[Any], part: Any) -> bool:
    return part in at if isinstance(at, dict) else isinstance(part, int) and part < len(at)


def said(fault: Mapping[str, Any]) -> str:
    """What is wrong in plain words: pydantic counts characters as items where a text was looked at first.

    A body of another content type comes to it as bytes.
    """
    if fault["type"] in {"model_attributes_type", "model_type"}:
        return "must be a JSON object" + (", sent as application/json" if tuple(fault["loc"]) == ("body",) else "")
    if fault["type"] in UNKNOWN_FORM:
        return f"must be one of {known}" if (known := fault["ctx"].get("expected_tags")) else "Field required"
    message: str = IN_JSON.get(fault["type"]) or _ENUM.sub(r"\1", fault["msg"].removeprefix("Value error, "))
    return message.replace(" items after validation", " characters") if isinstance(fault.get("input"), str) else message


def invalid_request(error: RequestValidationError) -> Response:
    """422 whose `errors` name each field as a dotted path and say what is wrong; no input is echoed."""
    faults = invalid_fields(error)
    return problem_response(
        code="invalid-request",
        title="Invalid request",
        status=422,
        detail=_in_a_sentence(faults),
        extensions={"errors": faults},
    )


def _in_a_sentence(faults: list[dict[str, str]]) -> str:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{first['field']}: {first['message']}{more}"


def invalid_arguments(error: ValidationError, given: Any) -> str:
    """What the `detail` of `invalid_request` would say of a body like this, for what is called in another way."""
    faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors(include_url=False)]
    return _in_a_sentence(invalid_fields(RequestValidationError(faults, body=given)))


def is_unreadable(error: HTTPException) -> bool:
    """Whether FastAPI means that the body is not text."""
    return error.status_code == 400 and error.detail == UNREADABLE_BODY


def invalid_body(message: str) -> Response:
    return problem_response(
        code="invalid-request",
        title="Invalid request",
        status=422,
        detail=f"body: {message}",
        extensions={"errors": [{"field": "body", "message": message}]},
    )


def http_problem(error: HTTPException) -> Response:
    if is_unreadable(error) and isinstance(error.__cause__, OSError):
        # Of a large form, which waits in a file until it is whole.
        said = f"The body cannot be kept ({error.__cause__.strerror}). Make room in the service's folder of temporary files."
        return problem_response(code="insufficient-storage", title="Insufficient storage", status=507, detail=said)
    if error.status_code == 400:  # from starlette, of a form that it cannot read, or from FastAPI
        return invalid_body("is not JSON in UTF-8" if is_unreadable(error) else f"cannot be read: {error.detail}")
    phrase = _phrase(error.status_code)
    title = TITLES.get(error.status_code, phrase.capitalize())
    code = title.lower().replace(" ", "-")
    detail = str(error.detail)
    if detail == phrase:
        detail = UNSAID.get(error.status_code, detail)
    response = problem_response(code=code, title=title, status=error.status_code, detail=detail)
    response.headers.update(error.headers or {})  # such as what is allowed where the method is not
    return response


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "HTTP error"


def problem_route(base: type[Exception]) -> type[APIRoute]:
    """A route class that renders its own errors, for a router inside an application whose handlers are not ours."""

    class ProblemRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    return await handler(request)
                except RequestValidationError as error:
                    return invalid_request(error)
                except HTTPException as error:
                    return http_problem(error)
                except base as error:
                    return render(error)  # type: ignore[arg-type]

            return guarded

    return ProblemRoute


def install_handlers(app: FastAPI, base: type[Exception]) -> None:
    """Registers the handlers on `app`; `base` is the service's own base class of errors, each of which is a `Problem`."""

    async def on_own(_: Request, error: Exception) -> Response:
        if not isinstance(error, base):
            raise error
        return render(error)  # type: ignore[arg-type]

    async def on_validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return invalid_request(error)

    async def on_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return http_problem(error)

    app.add_exception_handler(base, on_own)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)


def unexpected(error: Exception) -> Response:
    """The last resort: logged with its trace, answered without its words."""
    log.exception("unexpected_error", error=type(error).__name__)
    return problem_response(
        code="internal",
        title="Internal error",
        status=500,
        detail=UNEXPECTED,
    )


def forbidden(detail: str) -> Response:
    return problem_response(code="forbidden", title=TITLES[403], status=403, detail=detail)


def stopping() -> Response:
    """What was accepted and is not done when the service ends."""
    return problem_response(
        code="stopping", title="Stopping", status=503, detail="The service is being stopped. Ask again.", retry_after_s=1
    )
