"""One reader a format. Each takes a path and gives a `Document`, or raises `Unreadable`; they run in the reading process only."""
