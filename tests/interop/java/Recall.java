import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Sends two messages for later, takes the first back, and prints a line for each step. */
public final class Recall {
    private static final long DELAY_MS = 3_000;

    private Recall() {
    }

    /** Arguments: name server, topic. */
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("recalling");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        String topic = arguments[1];
        SendResult first = send(producer, topic, "first");
        send(producer, topic, "second");
        String id = producer.recallMessage(topic, first.getRecallHandle());
        System.out.println("recalled " + id.equals(first.getMsgId()));
        producer.shutdown();
        System.exit(0);
    }

    private static SendResult send(DefaultMQProducer producer, String topic, String body)
            throws Exception {
        Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        message.setDelayTimeMs(DELAY_MS);
        SendResult result = producer.send(message);
        System.out.println(body + " " + result.getSendStatus());
        return result;
    }
}
