import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Java's client doing the jobs of rocketmq_client_players.py. */
public class ClientPlayer {
    static final String TOPIC = "ClientBench";
    static final int BATCH = 100;
    static final int PENDING = 1000;

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[2]);
        double seconds = args[0].equals("consume") ? consume(args[1], count) : send(args, count);
        double processor = ProcessHandle.current().info().totalCpuDuration().get().toNanos() / 1e3;
        System.out.printf("%.0f %.1f%n", count / seconds, processor / count);
        System.exit(0);
    }

    static Message message() {
        return new Message(TOPIC, new byte[200]);
    }

    static double send(String[] args, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("client-bench");
        producer.setNamesrvAddr(args[1]);
        producer.setSendMsgTimeout(60_000);
        producer.start();
        producer.send(message());
        long start = System.nanoTime();
        switch (args[0]) {
            case "sync":
                for (int i = 0; i < count; i++) {
                    producer.send(message());
                }
                break;
            case "pipelined":
                pipeline(producer, count);
                break;
            default:
                for (int i = 0; i < count / BATCH; i++) {
                    List<Message> batch = new ArrayList<>();
                    for (int j = 0; j < BATCH; j++) {
                        batch.add(message());
                    }
                    producer.send(batch);
                }
        }
        return (System.nanoTime() - start) / 1e9;
    }

    static void pipeline(DefaultMQProducer producer, int count) throws Exception {
        Semaphore room = new Semaphore(PENDING);
        for (int i = 0; i < count; i++) {
            room.acquire();
            producer.send(message(), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    room.release();
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
        }
        room.acquire(PENDING);
    }

    static double consume(String nameServer, int count) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("client-bench");
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(TOPIC, "*");
        AtomicLong taken = new AtomicLong();
        AtomicLong began = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            began.compareAndSet(0, System.nanoTime());
            if (taken.addAndGet(messages.size()) >= count) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        return (System.nanoTime() - began.get()) / 1e9;
    }
}
