"""Where runs run: `local` process groups, `ray` jobs, `kubernetes` jobs, behind the one interface of `interface`."""
