"""Stamps, which came with Celery 5.3, travel along a workflow."""

from __future__ import annotations

from celery import Celery, chain
from stack import SOON


def test_stamps(app: Celery):
    steps = [app.signature("interop.add", (1, 2)), app.signature("interop.lineage")]
    workflow = chain(*steps)
    workflow.stamp(batch="b-7")
    assert workflow.apply_async().get(timeout=SOON)["stamps"] == {"batch": "b-7"}
