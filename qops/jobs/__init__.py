"""Looking at jobs: lists, groups of errors, and one job with all that is known of it. Nothing here changes a row."""
