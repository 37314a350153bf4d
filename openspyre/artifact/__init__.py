"""Waist 1: the SuperDSC bundle. Frozen model, text forms, verifier."""

from openspyre.artifact.directory import InvalidBundle, texts, write
from openspyre.artifact.fields import Problem
from openspyre.artifact.manifest import content_hash
from openspyre.artifact.model import Bundle
from openspyre.artifact.verify import check, read, verify

__all__ = ["Bundle", "InvalidBundle", "Problem", "check", "content_hash", "read", "texts", "verify", "write"]
