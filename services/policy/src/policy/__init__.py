"""vLLM's own server with the bundled policy and one router."""
