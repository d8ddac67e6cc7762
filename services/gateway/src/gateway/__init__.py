"""The public API and the rollout loop."""
