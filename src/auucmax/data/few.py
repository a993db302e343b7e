"""The rule for what is shown to others: no number about fewer than 20 people."""

LEAST_ROWS = 20  #: people, about fewer of whom no number is shown
