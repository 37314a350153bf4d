"""What the interpreter refuses, always with the file it stands in."""


class BundleError(Exception):
    """The bundle says something that has no meaning, or too little to have one."""


class UnknownOperation(BundleError):
    """An op name that no document describes."""
