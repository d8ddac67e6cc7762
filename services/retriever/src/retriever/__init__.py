"""Encoder, index and corpus behind one batcher."""
