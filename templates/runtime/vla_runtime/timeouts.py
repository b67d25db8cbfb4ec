"""How long the processes of a run wait for each other. Errors name these, so that nobody has to guess which wait ended."""

from datetime import timedelta

RENDEZVOUS = timedelta(minutes=5)  # until every process has started and found the others
COLLECTIVE = timedelta(minutes=10)  # one collective of the training loop; the slowest rank's longest step must fit
CONTROL = timedelta(
    minutes=60
)  # waits for one process that prepares something for the others: a download, a check, a resume
CHECKPOINT = timedelta(minutes=60)  # the collectives of a checkpoint that is written in the background
