"""The command line `parallelsearch`; one module per command group."""
