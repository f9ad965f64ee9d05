import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One producer and one consumer that live through the end of a master. A line of the input is a step
 * ("send FIRST COUNT", "suspend", "resume", "end"), told back once it is done; a line of the output
 * that begins with "got" is a message that the consumer was given.
 */
public final class Pair {
    private static final long AGAIN_MS = 50;

    private final String topic;
    private final DefaultMQProducer producer = new DefaultMQProducer("desk");
    private final DefaultMQPushConsumer consumer;

    private Pair(String nameServer, String topic, String group) throws Exception {
        this.topic = topic;
        consumer = new DefaultMQPushConsumer(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(200);
        for (ClientConfig each : List.of(producer, consumer)) {
            each.setNamesrvAddr(nameServer);
            each.setPollNameServerInterval(200);
            each.setHeartbeatBrokerInterval(500);
        }
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                say("got " + new String(each.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        producer.start();
        consumer.start();
    }

    /** Arguments: name server, topic, group. */
    public static void main(String[] arguments) throws Exception {
        Pair pair = new Pair(arguments[0], arguments[1], arguments[2]);
        BufferedReader input = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            pair.step(line.split(" "));
            say(line);
        }
        System.exit(0);
    }

    private void step(String[] words) throws Exception {
        switch (words[0]) {
            case "send" -> send(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            case "suspend" -> consumer.suspend();
            case "resume" -> consumer.resume();
            default -> {
                consumer.shutdown();
                producer.shutdown();
            }
        }
    }

    private void send(int first, int count) throws Exception {
        for (int number = first; number < first + count; number++) {
            while (!isSent(Integer.toString(number))) {
                Thread.sleep(AGAIN_MS);
            }
        }
    }

    /** False while there is no master that a message can be sent to. */
    private boolean isSent(String body) throws InterruptedException {
        try {
            SendResult result = producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
            return result.getSendStatus() == SendStatus.SEND_OK;
        } catch (InterruptedException error) {
            throw error;
        } catch (Exception error) {
            return false;
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
