"""A browser page that shows running queries live, on loopback and with a secret token.

`watch` is the public function, `server` serves the page, and `view` returns its content. The page
itself is HTML, CSS and JavaScript in `page`; Vega draws its charts.
"""
