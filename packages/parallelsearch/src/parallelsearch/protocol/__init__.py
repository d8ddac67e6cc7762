"""The protocol between policy and environment as pure text: the only copy of prompt, tags, splitting and layouts."""
