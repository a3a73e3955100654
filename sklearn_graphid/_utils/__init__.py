"""Small tools that belong to no room: checks of numbers, files, threads, warnings and other libraries."""

__all__: list[str] = []
