"""Paper D: many top-k queries over one uncertain window (D7 to D17 and its Table 9)."""
