"""What a check of a device, a driver or a folder has found, as data."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found."""

    subject: str
    """The device, driver or folder that was looked at."""
    check: str
    status: Status
    message: str
    remedy: str = ""
    """What to do; empty when nothing is to be done."""

    @classmethod
    def judge(cls, subject: str, check: str, message: str, *, is_right: bool, remedy: str) -> "Finding":
        """Return what a check found that ends well or not, with a remedy where it does not."""
        return cls(
            subject=subject,
            check=check,
            status=Status.OK if is_right else Status.BROKEN,
            message=message,
            remedy="" if is_right else remedy,
        )
