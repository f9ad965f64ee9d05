"""The sink: ``df.write.format("nsq")`` and ``df.writeStream.format("nsq")``.

A task packs its rows into the bodies of MPUB straight from Arrow's buffers and sends them over
HTTP, several requests at a time. With ``exactlyOnce`` it stages them at the nodes instead, and the
driver commits what the winning attempts have staged.
"""
