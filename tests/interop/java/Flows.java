import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * The flows with RocketMQ's Java client, 4.9 or 5.x: classes that moved between them are never named.
 * What each flow does, and the constants (environment, FLOW_...), are those of rocketmq_flow.py.
 */
public class Flows {
    static final int MANY = number("MANY");
    static final int NUMBERS = number("NUMBERS");
    static final int QUEUES = number("QUEUES");
    static final int RETRIES = number("RETRIES");
    static final String LONG_BODY = constant("LONG_BODY");
    static final String TAG = constant("TAG");

    final String nameServer;
    final String name;
    final DefaultMQProducer producer;

    Flows(String nameServer, String name) throws Exception {
        this.nameServer = nameServer;
        this.name = name;
        producer = start(new DefaultMQProducer(name, hook()));
    }

    /** Signs requests with the keys of FLOW_ACCESS_KEY and FLOW_SECRET_KEY, where these are given. */
    static RPCHook hook() {
        String key = constant("ACCESS_KEY");
        return key == null ? null : new AclClientRPCHook(new SessionCredentials(key, constant("SECRET_KEY")));
    }

    static String constant(String name) {
        return System.getenv("FLOW_" + name);
    }

    static int number(String name) {
        return Integer.parseInt(constant(name));
    }

    public static void main(String[] words) {
        finish(() -> play(words[0], new Flows(words[1], words[2])));
    }

    /** Prints the result of a flow, or its error, and ends the process. */
    static void finish(Callable<Object> flow) {
        int code = 1;
        try {
            System.out.println("RESULT " + json(flow.call()));
            code = 0;
        } catch (Throwable error) {
            error.printStackTrace();
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // some flows leave clients open
    }

    static Object play(String mode, Flows flows) throws Exception {
        switch (mode) {
            case "send": return flows.send();
            case "batch": return flows.batch();
            case "orderly": return flows.orderly();
            case "filter": return flows.filter();
            case "sql": return flows.sql();
            case "pull": return flows.pull();
            case "lite-pull": return flows.litePull();
            case "share": return flows.share();
            case "broadcast": return flows.broadcast();
            case "retry": return flows.retry();
            case "resume": return flows.resume();
            case "transaction": return flows.transaction();
            case "request": return flows.request();
            case "query": return flows.query();
            case "reset": return flows.reset();
            case "running-info": return flows.runningInfo();
            case "idle": return flows.idle();
            case "broker": return flows.restart("broker");
            case "namesrv": return flows.restart("namesrv");
            case "create": return flows.create();
            default: throw new IllegalArgumentException(mode);
        }
    }

    Object send() throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        Message delayed = message("delayed");
        delayed.setDelayTimeLevel(number("DELAY_LEVEL"));
        producer.send(message("sync"));
        producer.sendOneway(message("one-way"));
        producer.send(message("async"), new SendCallback() {
            @Override public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override public void onException(Throwable error) {
                error.printStackTrace();
            }
        });
        sendTo(message("selected"), number("SELECTED_QUEUE"));
        producer.send(message("long"));
        producer.send(delayed);
        answered.await();
        Map<String, Object> got = new ConcurrentHashMap<>();
        consume(message -> {
            String body = text(message);
            got.put(body, List.of(message.getTags(), message.getKeys(), message.getUserProperty("color")));
            if (body.equals("selected")) {
                got.put("QUEUE", message.getQueueId());
            }
            if (body.equals("delayed")) {
                got.put("DELAY", message.getStoreTimestamp() - message.getBornTimestamp());
            }
            return true;
        });
        until(() -> got.size() == 8);
        return got;
    }

    Object batch() throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < NUMBERS; number++) {
            messages.add(message("" + number));
        }
        SendResult result = producer.send(messages);
        Set<String> got = ConcurrentHashMap.newKeySet();
        Set<Long> offsets = ConcurrentHashMap.newKeySet();
        consume(message -> {
            offsets.add(message.getQueueOffset());
            return got.add(text(message));
        });
        until(() -> got.size() == NUMBERS);
        return Map.of(
            "bodies", new TreeSet<>(got), "offsets", offsets.size(),
            "ids", new HashSet<>(List.of(result.getMsgId().split(","))).size(),
            "offset ids", new HashSet<>(List.of(result.getOffsetMsgId().split(","))).size());
    }

    Object orderly() throws Exception {
        for (int number = 0; number < NUMBERS; number++) {
            sendTo(message("" + number), number % QUEUES);
        }
        Map<String, List<Integer>> got = new ConcurrentHashMap<>();
        AtomicInteger refusals = new AtomicInteger();
        DefaultMQPushConsumer consumer = configured("one");
        consumer.subscribe(name, "*");
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                int number = Integer.parseInt(text(message));
                if (number == number("REFUSED") && refusals.getAndIncrement() < 2) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                got.computeIfAbsent("" + message.getQueueId(),
                    queue -> Collections.synchronizedList(new ArrayList<>())).add(number);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        until(() -> got.values().stream().mapToInt(List::size).sum() == NUMBERS);
        return got;
    }

    Object filter() throws Exception {
        Set<String> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = configured("one");
        consumer.subscribe(name, "A || C");
        start(consumer, message -> got.add(text(message)));
        for (int number = 0; number < 2; number++) {
            for (String tag : List.of("A", "B", "C")) {
                producer.send(message(tag + "-" + number, tag));
            }
        }
        until(() -> got.size() >= 4);
        return new TreeSet<>(got);
    }

    Object sql() throws Exception {
        Set<Integer> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = configured("one");
        consumer.subscribe(name, MessageSelector.bySql(constant("EXPRESSION")));
        start(consumer, message -> got.add(Integer.parseInt(text(message))));
        for (int number = 0; number < 6; number++) {
            Message message = message("" + number);
            message.putUserProperty("number", "" + number);
            producer.send(message);
        }
        until(() -> got.size() >= 3);
        return new TreeSet<>(got);
    }

    @SuppressWarnings("deprecation")
    Object pull() throws Exception {
        sendNumbers(0, NUMBERS);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(name, hook());
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
        Set<String> got = new TreeSet<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(name)) {
            long offset = consumer.minOffset(queue);
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, "*", offset, 7);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    result.getMsgFoundList().forEach(message -> got.add(text(message)));
                }
                offset = result.getNextBeginOffset();
            }
            consumer.updateConsumeOffset(queue, offset);
            consumer.getOffsetStore().persist(queue);
            long wanted = offset;
            until(() -> { // sent one-way
                try {
                    return consumer.fetchConsumeOffset(queue, true) == wanted;
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
        }
        return got;
    }

    Object litePull() throws Exception {
        sendNumbers(0, NUMBERS);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(name, hook());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(name, "*");
        consumer.start();
        Set<String> got = new TreeSet<>();
        while (got.size() < NUMBERS) {
            consumer.poll(200).forEach(message -> got.add(text(message)));
        }
        return got;
    }

    Object share() throws Exception {
        Map<String, List<String>> got = consumeTwice(false);
        for (int probe = 0; got.values().stream().anyMatch(List::isEmpty); probe++) {
            producer.send(message("probe-" + probe)); // until the queues are shared
            Thread.sleep(50);
        }
        sendNumbers(0, MANY);
        until(() -> {
            Set<String> all = new HashSet<>(numbers(got.get("first")));
            all.addAll(numbers(got.get("second")));
            return all.size() == MANY;
        });
        int one = numbers(got.get("first")).size();
        int two = numbers(got.get("second")).size();
        return Map.of("first", one, "second", two, "twice", one + two - MANY);
    }

    Object broadcast() throws Exception {
        Map<String, List<String>> got = consumeTwice(true);
        sendNumbers(0, NUMBERS);
        until(() -> got.values().stream().allMatch(bodies -> bodies.size() >= NUMBERS));
        Map<String, Object> sizes = new TreeMap<>();
        got.forEach((who, bodies) -> sizes.put(who, new HashSet<>(bodies).size()));
        return sizes;
    }

    /** Two consumers of the group; what each of them got. */
    Map<String, List<String>> consumeTwice(boolean broadcasts) throws Exception {
        Map<String, List<String>> got = new TreeMap<>();
        for (String who : List.of("first", "second")) {
            List<String> bodies = Collections.synchronizedList(new ArrayList<>());
            got.put(who, bodies);
            DefaultMQPushConsumer consumer = configured(who);
            if (broadcasts) {
                var models = consumer.getMessageModel().getDeclaringClass();
                consumer.setMessageModel(Enum.valueOf(models, "BROADCASTING"));
            }
            consumer.subscribe(name, "*");
            start(consumer, message -> bodies.add(text(message)));
        }
        return got;
    }

    Object retry() throws Exception {
        AtomicInteger deliveries = new AtomicInteger();
        Set<String> topics = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = configured("one");
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.subscribe(name, "*");
        start(consumer, message -> {
            deliveries.incrementAndGet();
            topics.add(message.getTopic());
            return false;
        });
        producer.send(message("refused"));
        until(() -> deliveries.get() > RETRIES);
        Thread.sleep(300); // the last refusal leaves
        return Map.of("deliveries", deliveries.get(), "topics", topics.size());
    }

    Object resume() throws Exception {
        Map<String, Object> result = new TreeMap<>();
        for (String who : List.of("first", "second")) {
            int from = who.equals("first") ? 0 : 10;
            sendNumbers(from, from + 10);
            Set<Integer> got = ConcurrentHashMap.newKeySet();
            DefaultMQPushConsumer consumer =
                consume(message -> got.add(Integer.parseInt(text(message))));
            until(() -> got.size() >= 10);
            consumer.setAwaitTerminationMillisWhenShutdown(10_000); // or the last are not committed
            consumer.shutdown();
            result.put(who, new TreeSet<>(got));
        }
        return result;
    }

    /** Bodies say what becomes of their transaction: now, or when the broker asks. */
    Object transaction() throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        TransactionMQProducer transactional = new TransactionMQProducer(name + "-tx", hook());
        transactional.setInstanceName("transactional");
        transactional.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state(new String(message.getBody(), StandardCharsets.UTF_8));
            }

            @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = text(message);
                boolean isFirst = asked.add(body);
                boolean isAgain = body.equals("unknown-unknown-commit") && isFirst;
                return isAgain ? LocalTransactionState.UNKNOW
                    : state(body.substring(body.lastIndexOf('-') + 1));
            }
        });
        start(transactional);
        Set<String> got = ConcurrentHashMap.newKeySet();
        consume(message -> got.add(text(message)));
        for (String body : List.of("commit", "rollback", "unknown-commit", "unknown-rollback",
                "unknown-unknown-commit")) {
            transactional.sendMessageInTransaction(message(body), null);
        }
        until(() -> got.size() == 3 && asked.size() == 3);
        return Map.of("got", new TreeSet<>(got), "asked", new TreeSet<>(asked));
    }

    static LocalTransactionState state(String word) {
        switch (word) {
            case "commit": return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
            default: return LocalTransactionState.UNKNOW;
        }
    }

    Object request() throws Exception {
        DefaultMQProducer replier = new DefaultMQProducer(name + "-replier", hook());
        replier.setInstanceName("replier");
        start(replier);
        consume(message -> {
            byte[] body = ("re: " + text(message)).getBytes(StandardCharsets.UTF_8);
            try {
                replier.send(MessageUtil.createReplyMessage(message, body), 3000);
            } catch (Exception error) {
                error.printStackTrace();
            }
            return true;
        });
        List<String> replies = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            CompletableFuture<Message> reply = new CompletableFuture<>();
            producer.request(message("" + number), new RequestCallback() {
                @Override public void onSuccess(Message message) {
                    if (message != null) { // client 5.3 also tells so that the request was sent
                        reply.complete(message);
                    }
                }

                @Override public void onException(Throwable error) {
                    reply.completeExceptionally(error);
                }
            }, 10_000);
            replies.add(new String(reply.get().getBody(), StandardCharsets.UTF_8));
        }
        return replies;
    }

    @SuppressWarnings("deprecation")
    Object query() throws Exception {
        long begin = System.currentTimeMillis() - 60_000;
        SendResult result = producer.send(message("wanted"));
        producer.send(message("other"));
        List<String> byKey = new ArrayList<>();
        until(() -> {
            try {
                producer.queryMessage(name, "key-wanted", 32, begin, begin + 120_000)
                    .getMessageList().forEach(message -> byKey.add(text(message)));
            } catch (Exception notYet) {
                return false;
            }
            return !byKey.isEmpty();
        });
        return Map.of(
            "by key", byKey,
            "by offset id", text(producer.viewMessage(name, result.getOffsetMsgId())),
            "by id", text(producer.viewMessage(name, result.getMsgId())));
    }

    @SuppressWarnings("deprecation")
    Object reset() throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        sendNumbers(0, NUMBERS);
        DefaultMQPushConsumer consumer = consume(message -> got.add(text(message)));
        until(() -> got.size() == NUMBERS);
        consumer.getOffsetStore().persistAll(consumer.fetchSubscribeMessageQueues(name));
        DefaultMQAdminExt admin = admin();
        int queues = admin.resetOffsetByTimestamp(name, name, 0, true).size();
        until(() -> got.size() == 2 * NUMBERS);
        return Map.of("queues", queues, "different", new HashSet<>(got).size());
    }

    Object runningInfo() throws Exception {
        DefaultMQPushConsumer consumer = consume(message -> true);
        producer.send(message("one"));
        DefaultMQAdminExt admin = admin();
        String id = consumer.buildMQClientId();
        var info = admin.getConsumerRunningInfo(name, id, true);
        var connections = admin.examineConsumerConnectionInfo(name);
        return Map.of(
            "subscribed", info.getSubscriptionSet().size(),
            "has stacks", !info.getJstack().isEmpty(),
            "members", connections.getConnectionSet().size());
    }

    DefaultMQAdminExt admin() throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(hook());
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("admin");
        admin.start();
        return admin;
    }

    Object restart(String server) throws Exception {
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Set<String> got = ConcurrentHashMap.newKeySet();
        AtomicBoolean stop = new AtomicBoolean();
        Thread sending = new Thread(() -> {
            for (int number = 0; !stop.get();) {
                try {
                    producer.send(message("" + number));
                    acknowledged.add("" + number);
                    number++;
                    Thread.sleep(10);
                } catch (Exception again) {
                    continue;
                }
            }
        });
        consume(message -> got.add(text(message)) || true);
        sending.start();
        until(() -> got.size() > 20);
        System.out.println("RESTART " + server);
        System.in.read();
        int before = acknowledged.size();
        until(() -> got.size() > before + 20);
        stop.set(true);
        sending.join();
        Set<String> lost = new HashSet<>(acknowledged);
        long end = System.nanoTime() + (long) (Double.parseDouble(constant("LOST_AFTER_S")) * 1e9);
        until(() -> {
            lost.removeAll(got);
            return lost.isEmpty() || System.nanoTime() > end;
        });
        return Map.of("lost", lost.size(), "went on", acknowledged.size() > before);
    }

    /** A consumer that has consumed four messages, and a producer, until there is a line to read. */
    Object idle() throws Exception {
        Set<String> got = ConcurrentHashMap.newKeySet();
        sendNumbers(0, QUEUES);
        consume(message -> got.add(text(message)));
        until(() -> got.size() == QUEUES);
        System.out.println("READY");
        return System.in.read() > 0;
    }

    Object create() throws Exception {
        String topic = name + "-new";
        producer.send(new Message(topic, "created".getBytes(StandardCharsets.UTF_8)));
        Set<String> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = configured("one");
        consumer.subscribe(topic, "*");
        start(consumer, message -> got.add(text(message)));
        until(() -> !got.isEmpty());
        return got.contains("created");
    }

    // what the flows share

    <T extends DefaultMQProducer> T start(T producer) throws Exception {
        producer.setNamesrvAddr(nameServer);
        producer.setPollNameServerInterval(1000);
        producer.setSendMsgTimeout(10_000);
        producer.setMqClientApiTimeout(20_000);
        producer.start();
        return producer;
    }

    DefaultMQPushConsumer configured(String instance) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name, hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setMqClientApiTimeout(20_000);
        return consumer;
    }

    /** Starts a consumer; `handler` says whether a message is done. */
    void start(DefaultMQPushConsumer consumer, Predicate<MessageExt> handler) throws Exception {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean done = messages.stream().allMatch(handler);
            return done ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
    }

    DefaultMQPushConsumer consume(Predicate<MessageExt> handler) throws Exception {
        DefaultMQPushConsumer consumer = configured("one");
        consumer.subscribe(name, "*");
        start(consumer, handler);
        return consumer;
    }

    void sendNumbers(int from, int to) throws Exception {
        for (int number = from; number < to; number++) {
            sendTo(message("" + number), number % QUEUES);
        }
    }

    void sendTo(Message message, int queue) throws Exception {
        producer.send(message, (queues, ignored, wanted) -> queues.get((int) wanted), queue);
    }

    Message message(String body) {
        return message(body, TAG);
    }

    Message message(String body, String tag) {
        String whole = body.equals("long") ? LONG_BODY : body;
        Message message =
            new Message(name, tag, "key-" + body, whole.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("color", constant("COLOR"));
        return message;
    }

    static String text(MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        return body.equals(LONG_BODY) ? "long" : body;
    }

    static List<String> numbers(List<String> bodies) {
        synchronized (bodies) {
            return bodies.stream().filter(body -> !body.startsWith("probe"))
                .collect(Collectors.toList());
        }
    }

    static void until(BooleanSupplier done) throws InterruptedException {
        while (!done.getAsBoolean()) {
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }

    /** Maps, collections, texts, numbers, booleans. */
    static String json(Object value) {
        if (value instanceof Map) {
            return ((Map<?, ?>) value).entrySet().stream()
                .map(entry -> json(entry.getKey()) + ":" + json(entry.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Collection) {
            return ((Collection<?>) value).stream().map(Flows::json)
                .collect(Collectors.joining(",", "[", "]"));
        }
        boolean isText = value instanceof String;
        return isText ? '"' + ((String) value).replace("\"", "\\\"") + '"' : "" + value;
    }
}
