"""A page in the browser that shows running queries live: on loopback, behind a token, no network.

`watch` is the public function, `server` serves `app`, `view` says what the page shows. The page
itself is HTML, CSS and JavaScript in `page`, its charts are Vega's.
"""
