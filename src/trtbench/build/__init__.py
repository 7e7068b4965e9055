"""From ONNX to engines; the folder ``builders`` is the registry of ways to get there.

A builder does not know the runtimes, nor who started it. Its module has:

``available()``      ``None`` when it works here, else the reason in a few words
``fix()``            what to type to get it
``device(spec)``     what is locked while it builds: ``cpu`` or ``cuda:0``
``build(spec, *, folder, stage)``
                     build one engine at ``spec.output``, a new file in the folder, and give a
                     ``BuildOutcome`` that names the other files it left there
``command_lines(spec)``
                     for builders that are programs: what would be run, ready to paste
"""
