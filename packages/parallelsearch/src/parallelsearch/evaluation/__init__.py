"""Measures what the paper claims on our own stack: questions in, trajectories on disk, metrics, statistics and reports out.

numpy, scipy, matplotlib and prometheus-client (`parallelsearch[eval]`) are imported when a report or the canary needs them,
so that importing this package costs nothing.
"""
