"""The engines behind the policy: how vLLM is set up for CPU and CUDA, and the one file that imports it."""
