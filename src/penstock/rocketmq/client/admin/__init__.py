"""Administration of RocketMQ without an event loop: each request that an administrator sends, once.

mqadmin runs these coroutines on the blocking hub, nsqadmin and the doctor on the asyncio one.
"""
