"""What came of one sample file: which cases held, which differ on purpose, which failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.pages.differences import reason

from .connection import Miss


@dataclass
class Report:
    """The outcome of one sample file; `misses` says how each case that did not hold differed."""

    file: str
    held: list[str] = field(default_factory=list)
    misses: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    """Cases that were played too slowly to prove anything."""

    def miss(self, name: str, error: BaseException) -> None:
        """Note a case that did not hold. What is no Miss counts as one as well."""
        if isinstance(error, Miss):
            lines = [error.where, f"expected {error.expected}", f"actual   {error.actual}"]
        else:
            lines = [f"{type(error).__name__}: {error}"]
        self.misses[name] = "\n".join(f"    {line}" for line in lines)

    @property
    def failed(self) -> list[str]:
        """The misses that nobody has given a reason for."""
        return [name for name in self.misses if reason(self.file, name) is None]

    @property
    def outdated(self) -> list[str]:
        """The cases that are listed as different, and hold."""
        return [name for name in self.held if reason(self.file, name) is not None]

    def summary(self) -> str:
        """One line: the three numbers."""
        failed = len(self.failed)
        return (
            f"{self.file}: {len(self.held)} held, {len(self.misses) - failed} differ on purpose, "
            f"{failed} failed"
        )

    def __str__(self) -> str:
        return "\n".join(
            [self.summary(), *(f"- {name}\n{self.misses[name]}" for name in self.failed)]
        )
