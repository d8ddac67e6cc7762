"""The reward: exact match, terms and presets over a structured trajectory; pure."""
