import json

import pytest

ROW = {"id": "q1", "question": "Who is older, A or B?", "golden_answers": ["A"], "type": "comparison"}


@pytest.fixture
def write(tmp_path):
    """Writes rows (or raw lines) as a question file."""

    def _write(*rows, name="set.jsonl"):
        path = tmp_path / name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return _write
