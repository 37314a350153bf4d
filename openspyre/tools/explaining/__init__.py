"""What a bundle would cost on a card and why: counted and timed once, shown as text, JSON or a page."""
