import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** Consumes a topic as its broker says, by popping; prints a line for each message. */
public final class Pop {
    private Pop() {}

    /** Arguments: address of the name server, topic, group, how many messages. */
    public static void main(String[] arguments) throws Exception {
        CountDownLatch left = new CountDownLatch(Integer.parseInt(arguments[3]));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.subscribe(arguments[1], "*");
        consumer.setClientRebalance(false);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            print(messages);
            messages.forEach(message -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean done = left.await(40, TimeUnit.SECONDS);
        TimeUnit.SECONDS.sleep(1); // acknowledgements are sent in the background
        consumer.shutdown();
        System.exit(done ? 0 : 1);
    }

    private static synchronized void print(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            String receipt = message.getProperty("POP_CK");
            System.out.println(new String(message.getBody()) + " " + (receipt != null));
        }
    }
}
