"""The training view over a trainer that is answered for at the network's edge."""

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from live import live
from playwright.sync_api import expect
from web_actions import overflow, serious_faults

from parallelsearch.schemas.training import (
    SPEC,
    Checkpoint,
    CheckpointList,
    Promotion,
    StepMetrics,
    TrainingMetrics,
    TrainingRun,
    TrainingRunList,
)

pytestmark = pytest.mark.web
KINDS = ("parallel", "sequential", "hybrid", "unlabelled")


def run(identifier="r1", state="succeeded", **more):
    spec = SPEC.validate_python(
        {"kind": "reinforcement", "name": f"night-{identifier}", "model": "models/tiny", "data": "data/train.jsonl"}
    )
    return TrainingRun(id=identifier, state=state, spec=spec, created_at="2026-11-01T10:00:00Z", **more)


def metrics():
    def values(step):
        by_kind = {f"exact_match/{kind}": min(1.0, step / 60 + number / 10) for number, kind in enumerate(KINDS)}
        return (
            by_kind
            | {f"searches_per_rollout/{kind}": 1 + number * step / 80 for number, kind in enumerate(KINDS)}
            | {"kl": step / 1000}
        )

    return TrainingMetrics(steps=[StepMetrics(step=step, values=values(step)) for step in range(1, 41)])


def trainer():
    """The routes that the view uses, in the shapes of the schemas."""
    app = FastAPI()
    checkpoint = Checkpoint(step=40, path="runs/r1/40", bytes=270_000_000, created_at="2026-11-01T12:00:00Z")
    answers = {
        "": TrainingRunList(runs=[run(), run("r2", "failed", flags=["searches collapse"], detail="out of memory")], next="older"),
        "/r1": run(),
        "/r1/metrics": metrics(),
        "/r1/checkpoints": CheckpointList(checkpoints=[checkpoint]),
    }

    @app.post("/v1/training-runs/r1/checkpoints/40/promote")
    def promote(request: Request):
        if request.headers.get("authorization") == "Bearer let-me":
            return Promotion(step=40, path="runs/r1/40", version="8")
        problem = {"title": "Unauthorized", "status": 401, "detail": "This needs the admin token.", "request_id": "r-9"}
        return JSONResponse(problem, 401, media_type="application/problem+json")

    @app.get("/v1/training-runs{path:path}")
    def read(path: str):
        return answers[path]

    return app


@pytest.fixture
def training(new_page, second_gateway):
    with live(trainer()) as server, second_gateway(TRAINER_URL=server.url) as url:
        yield new_page(f"{url}/#/training", expect_ready=False)


def visit(page, place):
    page.evaluate("place => { location.hash = place; }", place)


def test_runs_are_listed_with_state_and_signs_of_trouble(training):
    rows = training.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("failed")
    expect(rows.nth(1)).to_contain_text("searches collapse")
    expect(training.get_by_text("These are the newest 2.")).to_be_visible()
    assert serious_faults(training) == []


def test_a_run_shows_its_curves_by_question_kind(training):
    training.get_by_role("link", name="night-r1").click()
    chart = training.get_by_role("img", name="exact_match, steps 1 to 40")
    expect(chart.locator("polyline")).to_have_count(len(KINDS))
    dashes = chart.locator("polyline").evaluate_all("lines => lines.map(line => getComputedStyle(line).strokeDasharray)")
    assert len(set(dashes)) == len(KINDS)
    assert serious_faults(training) == []


def test_a_checkpoint_is_promoted_with_the_admin_token_only(training):
    visit(training, "#/training/r1")
    promote = training.get_by_role("button", name="Promote step 40")
    promote.click()
    expect(training.get_by_role("alert")).to_contain_text("This needs the admin token.")
    expect(training.get_by_role("alert")).to_contain_text("r-9")
    training.get_by_label("Admin token").fill("let-me")
    promote.click()
    expect(training.get_by_text("the policy serves version 8")).to_be_visible()
    assert training.evaluate("localStorage.getItem('parallelsearch.admin-token')") is None


def test_the_view_fits_a_phone(training):
    training.set_viewport_size({"width": 360, "height": 740})
    visit(training, "#/training/r1")
    training.locator(".curve").first.wait_for()
    assert overflow(training) == 0


def test_a_trainer_that_is_not_there_is_told_in_words(new_page):
    page = new_page("/#/training", expect_ready=False)
    expect(page.get_by_role("alert")).to_contain_text("The trainer is not reachable")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
