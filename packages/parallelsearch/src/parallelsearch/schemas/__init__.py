"""Wire models of the HTTP contracts; pydantic at the edge, frozen dataclasses inside."""
