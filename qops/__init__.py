"""Operations toolkit for job queues that live in MySQL."""

__version__ = "0.1.0"
