"""A plugin that fails to import."""

import a_package_that_nobody_has  # pyright: ignore[reportMissingImports]  # noqa: F401
