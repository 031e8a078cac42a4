"""Ranks find each other and become linked.

conversation  many sockets in one thread
frames        what control connections carry
handshake     who is let in
strangers     who comes to a port, and how many of them
refusals      why somebody was not let in, told once
control       the star of small messages through rank 0
addresses     where a rank can be reached
rendezvous    everybody gets everybody's card
doors         where a rank listens meanwhile
wiring        a link for every pair
buffers       how much may be on its way on one host
fork          what a forked child lets go of
"""
