"""Nearest rows by inner product on the GPUs of one host. Nothing here is imported unless a GPU engine is chosen."""
