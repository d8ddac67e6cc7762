"""A rollout: one run of the policy on one question. `environment` decides, `runner` loops, `types` names."""
