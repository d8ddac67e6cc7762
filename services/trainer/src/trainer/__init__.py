"""The trainer: reinforcement learning and cold starts with OpenRLHF, as local processes, Ray jobs or Kubernetes jobs."""
