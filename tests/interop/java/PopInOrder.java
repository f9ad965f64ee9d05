import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.ClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops queue 0 in order, by the part of the client that speaks to brokers, since its push consumer
 * cannot; prints a line for each step.
 */
public final class PopInOrder {
    private static final long WAIT_MS = 20_000;
    private static final String BROKER = "broker-a";

    private final String address;
    private final String topic;
    private final String group;
    private final MQClientAPIExt client;

    private PopInOrder(String address, String topic, String group) {
        this.address = address;
        this.topic = topic;
        this.group = group;
        client = new MQClientAPIExt(
            new ClientConfig(), new NettyClientConfig(), new ClientRemotingProcessor(null), null);
        client.start();
    }

    /** Arguments: address of the broker, topic, group. */
    public static void main(String[] arguments) throws Exception {
        new PopInOrder(arguments[0], arguments[1], arguments[2]).run();
        System.exit(0);
    }

    private void run() throws Exception {
        List<MessageExt> first = pop(0);
        pop(0);
        for (MessageExt message : first) {
            System.out.println("changed " + change(message));
        }
        for (MessageExt message : pop(WAIT_MS)) {
            System.out.println("acknowledged " + acknowledge(message));
        }
        pop(0);
    }

    private List<MessageExt> pop(long pollMs) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(0);
        header.setMaxMsgNums(2);
        header.setInvisibleTime(60_000);
        header.setInitMode(0);
        header.setOrder(true);
        header.setPollTime(pollMs);
        header.setBornTime(System.currentTimeMillis());
        CompletableFuture<PopResult> found = new CompletableFuture<>();
        client.popMessageAsync(BROKER, address, header, pollMs + WAIT_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                found.complete(result);
            }

            @Override
            public void onException(Throwable problem) {
                found.completeExceptionally(problem);
            }
        });
        PopResult result = found.get(pollMs + WAIT_MS, TimeUnit.MILLISECONDS);
        List<MessageExt> messages = result.getMsgFoundList();
        System.out.println(result.getPopStatus());
        for (MessageExt message : messages == null ? List.<MessageExt>of() : messages) {
            System.out.println(new String(message.getBody()) + " " + message.getReconsumeTimes());
        }
        return messages;
    }

    private String acknowledge(MessageExt message) throws Exception {
        String receipt = message.getProperty("POP_CK");
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(message.getQueueId());
        header.setOffset(message.getQueueOffset());
        header.setExtraInfo(receipt);
        Told told = new Told();
        client.ackMessageAsync(address, WAIT_MS, told, header);
        return told.get(WAIT_MS, TimeUnit.MILLISECONDS).getStatus().name();
    }

    private String change(MessageExt message) throws Exception {
        String receipt = message.getProperty("POP_CK");
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(message.getQueueId());
        header.setOffset(message.getQueueOffset());
        header.setExtraInfo(receipt);
        header.setInvisibleTime(100L);
        Told told = new Told();
        client.changeInvisibleTimeAsync(BROKER, address, header, WAIT_MS, told);
        AckResult result = told.get(WAIT_MS, TimeUnit.MILLISECONDS);
        boolean isSame = ExtraInfoUtil.getPopTime(ExtraInfoUtil.split(result.getExtraInfo()))
            .equals(ExtraInfoUtil.getPopTime(ExtraInfoUtil.split(receipt)));
        return result.getStatus() + " " + isSame;
    }

    private static final class Told extends CompletableFuture<AckResult> implements AckCallback {
        @Override
        public void onSuccess(AckResult result) {
            complete(result);
        }

        @Override
        public void onException(Throwable problem) {
            completeExceptionally(problem);
        }
    }
}
