"""Encoders: which one is meant and by which rules it embeds (no engine needed), and the engines that run it."""
