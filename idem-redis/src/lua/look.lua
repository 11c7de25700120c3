-- Reads the record and the clock.
return undecided(clock())
