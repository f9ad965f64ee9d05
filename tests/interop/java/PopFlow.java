import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The flow `pop`, which only clients of 5.x can play: the broker shares a topic's queues out. */
public class PopFlow extends Flows {
    PopFlow(String nameServer, String name) throws Exception {
        super(nameServer, name);
    }

    public static void main(String[] words) {
        finish(() -> new PopFlow(words[1], words[2]).pop());
    }

    Object pop() throws Exception {
        DefaultMQAdminExt admin = admin();
        String broker =
            admin.examineTopicRouteInfo(name).getBrokerDatas().get(0).selectBrokerAddr();
        admin.setMessageRequestMode(broker, name, name, MessageRequestMode.POP, 8, 3_000);
        Set<String> got = ConcurrentHashMap.newKeySet();
        AtomicInteger refusals = new AtomicInteger();
        for (String instance : Set.of("first", "second")) {
            DefaultMQPushConsumer consumer = configured(instance);
            consumer.setClientRebalance(false);
            consumer.subscribe(name, "*");
            start(consumer, message -> {
                if (text(message).equals(constant("REFUSED")) && refusals.get() == 0) {
                    refusals.incrementAndGet();
                    return false;
                }
                return got.add(text(message));
            });
        }
        sendNumbers(0, NUMBERS);
        until(() -> got.size() == NUMBERS);
        return Map.of("bodies", new TreeSet<>(got), "refusals", refusals.get());
    }
}
