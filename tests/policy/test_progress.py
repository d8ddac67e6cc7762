import time

from policy.progress import phase


def test_a_phase_gives_signs_of_life() -> None:
    lines: list[str] = []
    with phase("loading", lines.append, beat_s=0.01):
        time.sleep(0.05)
    assert lines[0] == "loading"
    assert any(line.startswith("loading … ") for line in lines[1:-1])
    assert lines[-1].startswith("loading: done in ")
