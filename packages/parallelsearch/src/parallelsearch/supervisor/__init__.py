"""Runs the platform on one machine: a plan of processes, one supervising process, and what `up`, `down` and `status` see of it.

`settings` and `places` say what is wanted and where; `plan` turns that into steps; `groups` starts and stops process
groups; `run` is the supervising loop; it writes `snapshot`s, which `launch`, `status` and `watch` read.
"""
