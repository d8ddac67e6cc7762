"""Training data: questions in, prompt files out; trajectories in, cold-start files out; manifests of both."""
