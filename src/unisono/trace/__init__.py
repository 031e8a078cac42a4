"""What happened when: the calls of each rank as a trace for Perfetto, and the traces of all ranks on one clock.

record   a call, as it is known afterwards or while it goes on
events   calls as events of the Trace Event Format
file     the trace of one rank, while it is written
read     such a file, checked; it may end anywhere
merge    all of them, on the clock of rank 0
summary  what they come to

dump       what a rank knows when a call has failed, as a file
stacks     where its threads are
ends       how the processes of a job ended
plain      named tuples as JSON, and back; as files: plain_file
scene      the dumps of one communicator
waits      who waited for whom
causes     what came first
diagnosis  all of it together
"""
