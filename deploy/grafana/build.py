"""Writes deploy/grafana/dashboards/*.json, as Grafana reads them, from what `*_panels.py` say.

usage: .venv/bin/python deploy/grafana/build.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answers_panels import ANSWERS
from panels import Dashboard, Panel
from policy_panels import POLICY
from retriever_panels import RETRIEVER
from training_panels import TRAINING

DASHBOARDS = {"answers": ANSWERS, "retriever": RETRIEVER, "policy": POLICY, "training": TRAINING}
TARGET = Path(__file__).parent / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
WIDTH, HEIGHT, PAGE_WIDTH = 8, 8, 24
SCHEMA_VERSION = 39


def panel_json(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom = {
        "fillOpacity": 20 if panel.stacked else 0,
        "stacking": {"mode": "normal" if panel.stacked else "none"},
        "showPoints": "never",
    }
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.what,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit.value, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": DATASOURCE, "expr": query.expression, "legendFormat": query.legend}
            for at, query in enumerate(panel.queries)
        ],
    }


def laid_out(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """Rows below each other, three panels side by side."""
    number, y = 1, 0
    for row in dashboard.rows:
        place = {"x": 0, "y": y, "w": PAGE_WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, y, x = number + 1, y + 1, 0
        for panel in row.panels:
            if x + WIDTH > PAGE_WIDTH:
                x, y = 0, y + HEIGHT
            yield panel_json(panel, number, {"x": x, "y": y, "w": WIDTH, "h": HEIGHT})
            number, x = number + 1, x + WIDTH
        y += HEIGHT


def dashboard_json(dashboard: Dashboard) -> dict[str, Any]:
    others = [other for other in DASHBOARDS.values() if other is not dashboard]
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["parallelsearch"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": []},
        "annotations": {"list": []},
        "links": [
            {"title": other.title, "type": "link", "url": f"/d/{other.uid}", "keepTime": True, "icon": "dashboard"}
            for other in others
        ],
        "panels": list(laid_out(dashboard)),
    }


def files() -> dict[str, str]:
    """What each file holds."""
    return {f"{name}.json": json.dumps(dashboard_json(each), indent=1) + "\n" for name, each in DASHBOARDS.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (TARGET / name).write_text(text)
