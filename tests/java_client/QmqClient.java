import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import qunar.tc.qmq.ListenerHolder;
import qunar.tc.qmq.Message;
import qunar.tc.qmq.MessageSendStateListener;
import qunar.tc.qmq.NeedRetryException;
import qunar.tc.qmq.PullConsumer;
import qunar.tc.qmq.SubscribeParam;
import qunar.tc.qmq.TagType;
import qunar.tc.qmq.consumer.MessageConsumerProvider;
import qunar.tc.qmq.producer.MessageProducerProvider;

/**
 * QMQ's own client, told by lines on its standard input what to do. Each line is words between tabs;
 * so is each line that it says. Decisions are made by whoever writes the lines.
 */
public final class QmqClient {
    private static final String NAME = "name";
    /** How often a message makes its listener throw. */
    private static final String FAILS = "fails";
    /** How long after which a message wants to come again, once, in milliseconds. */
    private static final String AGAIN_MS = "again_ms";

    private final MessageProducerProvider producer = new MessageProducerProvider();
    private final MessageConsumerProvider consumer = new MessageConsumerProvider();
    private final Map<String, ListenerHolder> listeners = new HashMap<>();
    private final ExecutorService listening = Executors.newFixedThreadPool(4);
    /** Names of messages that a listener never finishes in this process. */
    private final Set<String> held = ConcurrentHashMap.newKeySet();
    private final ExecutorService pulling = Executors.newCachedThreadPool();

    private QmqClient(String metaServer, String clientId) {
        // Without one, two processes of the same jar are one consumer.
        producer.setClientIdProvider(() -> clientId);
        consumer.setClientIdProvider(() -> clientId);
        for (Runnable told : List.<Runnable>of(
                () -> producer.setMetaServer(metaServer),
                () -> consumer.setMetaServer(metaServer),
                () -> producer.setAppCode("tests"),
                () -> consumer.setAppCode("tests"),
                producer::init,
                consumer::init)) {
            told.run();
        }
    }

    /** Arguments: the address of the server of addresses, and the client's id. */
    public static void main(String[] arguments) throws Exception {
        QmqClient client = new QmqClient(arguments[0], arguments[1]);
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null && !line.equals("quit"); line = lines.readLine()) {
            client.obey(line.split("\t", -1));
        }
        client.end();
    }

    private static synchronized void say(Object... words) {
        List<String> texts = new ArrayList<>();
        for (Object word : words) {
            texts.add(String.valueOf(word));
        }
        System.out.println(String.join("\t", texts));
        System.out.flush();
    }

    private void obey(String[] words) {
        switch (words[0]) {
            case "send" -> send(words[1], words[2], Long.parseLong(words[3]), words[4], words[5]);
            case "listen" -> listen(words[1], words[2], Boolean.parseBoolean(words[3]), words[4]);
            case "hold" -> held.addAll(listed(words[1]));
            case "stop" -> listeners.remove(words[1]).stopListen();
            case "pull" -> pulling.execute(
                    () -> pull(words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4])));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void end() {
        for (ListenerHolder holder : listeners.values()) {
            holder.stopListen();
        }
        consumer.destroy();
        producer.destroy();
        say("ended");
        // The client's own threads are no daemons.
        System.exit(0);
    }

    private static List<String> listed(String words) {
        return words.isEmpty() ? List.of() : Arrays.asList(words.split(","));
    }

    private void send(String subject, String name, long delayMs, String tags, String properties) {
        Message message = producer.generateMessage(subject);
        message.setProperty(NAME, name);
        for (String property : listed(properties)) {
            String[] pair = property.split("=", 2);
            message.setProperty(pair[0], pair[1]);
        }
        for (String tag : listed(tags)) {
            message.addTag(tag);
        }
        if (delayMs > 0) {
            message.setDelayTime(delayMs, TimeUnit.MILLISECONDS);
        }
        producer.sendMessage(message, new MessageSendStateListener() {
            @Override
            public void onSuccess(Message sent) {
                say("sent", name, true);
            }

            @Override
            public void onFailed(Message sent) {
                say("sent", name, false);
            }
        });
    }

    private void listen(String subject, String group, boolean broadcast, String tags) {
        SubscribeParam.SubscribeParamBuilder wanted = new SubscribeParam.SubscribeParamBuilder().setBroadcast(broadcast);
        if (!tags.isEmpty()) {
            wanted.setTagType(TagType.OR).setTags(new HashSet<>(listed(tags)));
        }
        listeners.put(subject, consumer.addListener(
                subject, group, message -> handle(group, message), listening, wanted.create()));
    }

    /** Says what came, then fails as the message wants it to. */
    private void handle(String group, Message message) {
        sayGot(group, message);
        if (held.contains(message.getStringProperty(NAME))) {
            while (true) {
                // A thread may wake without a reason.
                LockSupport.park();
            }
        }
        String fails = message.getStringProperty(FAILS);
        if (fails != null && message.times() <= Integer.parseInt(fails)) {
            throw new IllegalStateException("as " + message.getStringProperty(NAME) + " wants it");
        }
        String again = message.getStringProperty(AGAIN_MS);
        if (again != null && message.times() == 1) {
            throw new NeedRetryException(Integer.parseInt(again), TimeUnit.MILLISECONDS, "later");
        }
    }

    private static void sayGot(String group, Message message) {
        long delayMs = message.getScheduleReceiveTime() == null
                ? -1
                : System.currentTimeMillis() - message.getScheduleReceiveTime().getTime();
        String tags = String.join(",", new TreeSet<>(message.getTags()));
        say("got", message.getSubject(), group, message.getStringProperty(NAME), message.times(), tags, delayMs);
    }

    private void pull(String subject, String group, int count, long waitMs) {
        PullConsumer pulled = consumer.getOrCreatePullConsumer(subject, group, false);
        pulled.online();
        List<Message> found = pulled.pull(count, waitMs);
        for (Message message : found) {
            sayGot(group, message);
            message.ack(0, null);
        }
        say("pulled", subject, group, found.size());
    }
}
