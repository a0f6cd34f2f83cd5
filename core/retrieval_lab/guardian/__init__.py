"""The process that owns the embedded server: it makes the cluster, starts the server, stops it after the last client.

It runs in an isolated interpreter, with this folder's parent at the end of the import path: the modules here import the
standard library and each other by relative names, nothing else.

The protocol is three files locked with `flock`, which the kernel releases however a process ends:

- `clients`: every client holds it shared for its life, and nobody uses the server without it. The guardian waits for it
  exclusively and keeps it while it stops the server; who comes in between waits, and then finds no server.
- `guardian`: held by the one guardian. Whoever finds it free may start another, which adopts a running server.
- `server`: inherited by the server and its backends. Free means that no process of the cluster is left, whatever the
  files say, so that the files of a dead server can go.

A named pipe, `control`, carries the order to stop. Opening it fails when no guardian listens, so it is never stale.
"""
