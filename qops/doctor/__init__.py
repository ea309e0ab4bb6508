"""Doctor: facts are collected once, checks are pure functions over them, and the audit puts both together."""
