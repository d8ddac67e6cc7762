"""Training runs with OpenRLHF."""
