import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A member of a group that handles numbers as the campaign's own members do: some fail at first, some
 * always. It prints "handled NUMBER" of each that it has handled, and "held QUEUE..." as its queues change.
 */
public class Sharer {
    private static final long LOOK_MS = 100;

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setHeartbeatBrokerInterval(2000);
        consumer.setPollNameServerInterval(2000);
        consumer.setMaxReconsumeTimes(Integer.parseInt(args[3]));
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) Sharer::handle);
        consumer.start();
        String told = "";
        while (true) {
            String held = "held" + queues(consumer, args[2]);
            if (!held.equals(told)) {
                print(held);
                told = held;
            }
            Thread.sleep(LOOK_MS);
        }
    }

    private static ConsumeConcurrentlyStatus handle(
            List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        context.setDelayLevelWhenNextConsume(1);
        for (MessageExt message : messages) { // one at a time, as is the default
            int number = Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8));
            boolean isPoison = number % 97 == 13;
            if (isPoison || message.getReconsumeTimes() == 0 && number % 23 == 5) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            print("handled " + number);
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    @SuppressWarnings("deprecation") // there is no other way to ask which queues it has
    private static String queues(DefaultMQPushConsumer consumer, String topic) {
        List<Integer> found = new ArrayList<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
                .getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(topic)) {
                found.add(queue.getQueueId());
            }
        }
        StringBuilder text = new StringBuilder();
        found.stream().sorted().forEach(queue -> text.append(' ').append(queue));
        return text.toString();
    }

    private static synchronized void print(String line) {
        System.out.println(line);
    }
}
