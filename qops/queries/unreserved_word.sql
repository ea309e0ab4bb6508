-- Whether a name is a word of MySQL's that needs no quotes: in digests such a name, unless it was written in quotes,
-- stands in capitals without them (STATUS for status). MySQL 8.0 and later; needs nothing.
SELECT word AS word
  FROM information_schema.keywords
 WHERE word = UPPER(:name)
   AND reserved = 0
