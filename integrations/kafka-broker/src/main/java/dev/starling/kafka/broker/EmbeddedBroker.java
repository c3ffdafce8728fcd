package dev.starling.kafka.broker;

import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;

/**
 * A Kafka broker and its controller in the calling JVM, on the loopback interface. {@link #close} deletes its log.
 * For tests and samples: one node, no replication.
 */
public final class EmbeddedBroker implements AutoCloseable {
    private final Path directory;
    private final Map<String, Object> settings;
    private final String servers;
    private KafkaRaftServer server;

    private EmbeddedBroker(Path directory, Map<String, Object> settings, String servers) {
        this.directory = directory;
        this.settings = settings;
        this.servers = servers;
    }

    /** Starts a broker on a free port with its log in a temporary directory. */
    public static EmbeddedBroker start() {
        try {
            int[] ports = freePorts();
            Path directory = Files.createTempDirectory("starling-kafka-");
            String servers = "127.0.0.1:" + ports[0];
            Map<String, Object> settings = new HashMap<>();
            settings.put("node.id", "1");
            settings.put("process.roles", "broker,controller");
            settings.put("listeners", "PLAINTEXT://" + servers + ",CONTROLLER://127.0.0.1:" + ports[1]);
            settings.put("advertised.listeners", "PLAINTEXT://" + servers);
            settings.put("controller.listener.names", "CONTROLLER");
            settings.put("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT");
            settings.put("controller.quorum.voters", "1@127.0.0.1:" + ports[1]);
            settings.put("log.dirs", directory.toString());
            settings.put("auto.create.topics.enable", "false");
            settings.put("offsets.topic.replication.factor", "1");
            settings.put("offsets.topic.num.partitions", "1");
            settings.put("transaction.state.log.replication.factor", "1");
            settings.put("transaction.state.log.min.isr", "1");
            settings.put("transaction.state.log.num.partitions", "1");
            settings.put("share.coordinator.state.topic.replication.factor", "1");
            settings.put("share.coordinator.state.topic.min.isr", "1");
            settings.put("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500");
            settings.put("group.initial.rebalance.delay.ms", "0");
            settings.put("log.cleaner.dedupe.buffer.size", "2097152");
            settings.put("num.network.threads", "1");
            settings.put("num.io.threads", "2");
            settings.put("background.threads", "1");
            EmbeddedBroker broker = new EmbeddedBroker(directory, settings, servers);
            try {
                broker.format();
                broker.boot();
                return broker;
            } catch (Throwable e) {
                broker.closeAfter(e);
                throw e;
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static int[] freePorts() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        try (ServerSocket first = new ServerSocket(0, 1, loopback);
                ServerSocket second = new ServerSocket(0, 1, loopback)) {
            return new int[] {first.getLocalPort(), second.getLocalPort()};
        }
    }

    private void format() throws IOException {
        Formatter formatter = new Formatter();
        formatter.setPrintStream(new PrintStream(PrintStream.nullOutputStream(), false, StandardCharsets.UTF_8));
        formatter.setNodeId(1);
        formatter.setClusterId(Uuid.randomUuid().toString());
        formatter.setDirectories(List.of(directory.toString()));
        formatter.setMetadataLogDirectory(directory.toString());
        formatter.setControllerListenerName("CONTROLLER");
        try {
            formatter.run();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IOException("the log directory " + directory + " cannot be formatted", e);
        }
    }

    private void boot() {
        server = new KafkaRaftServer(new KafkaConfig(settings, false), Time.SYSTEM);
        server.startup();
    }

    /** Returns the address for {@code bootstrap.servers}. */
    public String servers() {
        return servers;
    }

    /** Creates topics with numbers of partitions; topics whose name starts with {@code models} are compacted. */
    public void topics(Map<String, Integer> partitions) {
        List<NewTopic> topics = partitions.entrySet().stream().map(e -> {
            NewTopic topic = new NewTopic(e.getKey(), e.getValue(), (short) 1);
            return e.getKey().startsWith("models") ? topic.configs(Map.of("cleanup.policy", "compact")) : topic;
        }).toList();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(topics).all().get(30, TimeUnit.SECONDS);
            awaitTopics(admin, partitions.keySet());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while topics were created", e);
        } catch (ExecutionException | TimeoutException e) {
            throw new IllegalStateException("the topics " + partitions.keySet() + " cannot be created", e);
        }
    }

    /** Waits until the broker knows topics that the controller has created. */
    private static void awaitTopics(Admin admin, Set<String> topics)
            throws InterruptedException, ExecutionException, TimeoutException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (true) {
            try {
                admin.describeTopics(topics).allTopicNames().get(30, TimeUnit.SECONDS);
                return;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof UnknownTopicOrPartitionException) || System.nanoTime() > end) {
                    throw e;
                }
            }
        }
    }

    /** Stops the broker; its log is kept. */
    public void stop() {
        KafkaRaftServer running = server;
        server = null;
        if (running != null) {
            running.shutdown();
            running.awaitShutdown();
        }
    }

    /** Starts the broker again on the same port with the same log. */
    public void restart() {
        stop();
        boot();
    }

    /** Stops the broker and deletes its log. */
    @Override
    public void close() {
        try {
            stop();
        } finally {
            delete();
        }
    }

    private void delete() {
        if (Files.notExists(directory)) {
            return;
        }
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the log directory " + directory + " cannot be deleted", e);
        }
    }

    /** Closes a broker whose start has failed; the failure keeps what else fails. */
    private void closeAfter(Throwable failure) {
        try {
            close();
        } catch (RuntimeException e) {
            failure.addSuppressed(e);
        }
    }
}
