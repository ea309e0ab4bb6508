-- The cipher of this session; empty: it is not encrypted. MySQL 8.0 and later; needs nothing.
SHOW SESSION STATUS LIKE 'Ssl_cipher'
