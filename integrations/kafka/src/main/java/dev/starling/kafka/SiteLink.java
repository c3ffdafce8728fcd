package dev.starling.kafka;

import dev.starling.errors.StarlingException;
import dev.starling.nn.Parameter;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A site's consumer and producer on the topic of weights. Records are not trusted: sizes, checksums, names, shapes and
 * elements are checked before an update is kept. Confined to the training thread, except that a second thread sends.
 */
final class SiteLink implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    /** The header that distinguishes processes that publish under the same site name. */
    private static final String RUN = "starling.run";
    private static final int MAX_SITES = 1000;
    static final int MAX_NAME = 200;
    /** Length of the longest reason in the log: it may quote names and texts of a stranger. */
    private static final int MAX_REASON = 2000;
    private static final long MIN_BUFFER = 32 << 20;

    private final KafkaCluster cluster;
    private final String topic;
    private final String site;
    private final Duration staleness;
    private final SiteWeights weights;
    private final String run = UUID.randomUUID().toString();
    private final long openedMs = System.currentTimeMillis();
    private final Consumer<byte[], byte[]> consumer;
    private final Producer<byte[], byte[]> producer;
    /** Sends on its own thread: send() blocks if the topic's metadata has expired and no broker answers. */
    private final ExecutorService sender;
    private final Map<String, SiteUpdate.Assembly> assemblies = new HashMap<>();
    /** By site, the update to mix in: the latest weights, with the mass of all updates since the last exchange. */
    private final Map<String, SiteUpdate> received = new HashMap<>();
    /** By site, when its last weights were published, in ms since 1970, but no later than they were received. */
    private final Map<String, Long> lastPublishedMs = new HashMap<>();
    /** The publication in flight, or {@code null}. */
    private Publication publication;
    private Future<?> sent = CompletableFuture.completedFuture(null);
    private String problem;
    private long refused;
    private long refusedNs;

    /** Weights that are being sent to the brokers. */
    private static final class Publication {
        private final double given;
        private final AtomicInteger unacknowledged;
        private volatile Throwable error;

        Publication(double given, int parts) {
            this.given = given;
            unacknowledged = new AtomicInteger(parts);
        }

        void onAcknowledged(Exception e) {
            // A success is not written: another thread may report a failure at the same time.
            if (e != null) {
                error = e;
            }
            unacknowledged.decrementAndGet();
        }
    }

    /**
     * Connects, and reads what was published within the staleness.
     *
     * @throws StreamException if the brokers do not answer within the deadline, or there is no such topic
     */
    SiteLink(KafkaCluster cluster, String topic, String site, Duration staleness, String compression,
            SiteWeights weights) {
        this.cluster = cluster;
        this.topic = topic;
        this.site = site;
        this.staleness = staleness;
        this.weights = weights;
        consumer = cluster.consumer(Map.of());
        try {
            catchUp();
            producer = cluster.producer(Map.of("compression.type", compression, "linger.ms", 5,
                    // Room for all parts of a publication.
                    "buffer.memory", Math.max(MIN_BUFFER, weights.maxBytes() * 2)));
        } catch (KafkaException e) {
            KafkaCluster.close(consumer);
            throw cluster.failure(name(), e);
        } catch (RuntimeException e) {
            KafkaCluster.close(consumer);
            throw e;
        }
        sender = Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name("starling-site-" + site)
                .factory());
    }

    /** Returns the site's name for messages. */
    private String name() {
        return "the site " + site + " on topic " + topic;
    }

    private void catchUp() {
        List<TopicPartition> partitions = cluster.partitions(consumer, topic);
        consumer.assign(partitions);
        long since = System.currentTimeMillis() - staleness.toMillis();
        Map<TopicPartition, OffsetAndTimestamp> starts = consumer.offsetsForTimes(
                partitions.stream().collect(Collectors.toMap(p -> p, p -> since)), cluster.deadline());
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, cluster.deadline());
        partitions.forEach(p -> consumer.seek(p, starts.get(p) == null ? ends.get(p) : starts.get(p).offset()));
        long end = System.nanoTime() + cluster.deadline().toNanos();
        while (ends.entrySet().stream().anyMatch(e -> consumer.position(e.getKey()) < e.getValue())) {
            if (System.nanoTime() > end) {
                throw cluster.noAnswer(name(), null);
            }
            receive(Duration.ofMillis(50));
        }
    }

    // ---- publications of other sites ----

    /** Receives the records that have arrived; waits no longer than {@code wait}. */
    void receive(Duration wait) {
        try {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(wait)) {
                String from = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
                if (!from.equals(site)) {
                    receive(from, record);
                } else if (!run.equals(StreamHeaders.text(record.headers(), RUN)) && record.timestamp() > openedMs) {
                    problem = "another process publishes as site " + site + "; give each site a name of its own";
                }
            }
        } catch (KafkaException e) {
            problem = e.getMessage();
        }
    }

    private void receive(String from, ConsumerRecord<byte[], byte[]> record) {
        try {
            if (from.isEmpty() || from.length() > MAX_NAME) {
                throw new StreamException("the name of a site must have 1 to " + MAX_NAME + " characters, has "
                        + from.length());
            }
            if (!assemblies.containsKey(from) && assemblies.size() >= MAX_SITES) {
                throw new StreamException("more than " + MAX_SITES + " sites publish; restrict write access to the "
                        + "topic");
            }
            SiteUpdate update = assemblies
                    .computeIfAbsent(from, key -> new SiteUpdate.Assembly(key, weights.maxBytes())).add(record);
            if (update == null) {
                return;
            }
            weights.check(update.weights());
            // A site whose clock is ahead must not count as present after it has left.
            long made = Math.min(update.timestamp(), System.currentTimeMillis());
            lastPublishedMs.put(from, made);
            SiteUpdate before = received.remove(from);
            double sum = update.mass();
            if (before != null) {
                sum += before.mass();
                before.close();
            }
            received.put(from, new SiteUpdate(from, sum, made, update.weights()));
        } catch (StarlingException e) {
            reject(from, record, e.getMessage());
        }
    }

    /** Counts a refused record; logs at most one a second. */
    private void reject(String from, ConsumerRecord<byte[], byte[]> record, String reason) {
        refused++;
        if (refused == 1 || System.nanoTime() - refusedNs > 1_000_000_000L) {
            refusedNs = System.nanoTime();
            LOG.log(Level.WARNING, "topic {0}, partition {1}, offset {2}: a publication of site {3} is refused, the "
                    + "{4}th so far: {5}", record.topic(), record.partition(), record.offset(),
                    printable(from, MAX_NAME), refused,
                    printable(String.valueOf(reason), MAX_REASON));
        }
    }

    /** Returns the first {@code length} characters of a stranger's text, without control characters. */
    static String printable(String text, int length) {
        return text.substring(0, Math.min(text.length(), length)).replaceAll("\\p{Cntrl}", "?");
    }

    boolean isFresh(long timestamp) {
        return System.currentTimeMillis() - timestamp <= staleness.toMillis();
    }

    /** Returns the updates received since the last call, one a site; forgets sites that have become stale. */
    List<SiteUpdate> drainReceived() {
        List<SiteUpdate> all = new ArrayList<>(received.values());
        received.clear();
        lastPublishedMs.values().removeIf(made -> !isFresh(made));
        long now = System.nanoTime();
        assemblies.values().removeIf(a -> now - a.receivedNs() > staleness.toNanos());
        return all;
    }

    /** Returns how many other sites have published within the staleness. */
    long others() {
        return lastPublishedMs.values().stream().filter(this::isFresh).count();
    }

    /** Returns how many records or publications were refused. */
    long refused() {
        return refused;
    }

    // ---- publications of this site ----

    /** Returns whether a publication is still in flight. */
    boolean isSending() {
        return publication != null && publication.unacknowledged.get() > 0;
    }

    /**
     * Returns the mass given away by a publication that did not reach the brokers, once; -1 if there is none. A
     * publication of which only the last acknowledgement was lost counts as failed too: its mass then exists twice,
     * which changes the influence of sites, not the weights that they converge to.
     */
    double returned() {
        if (publication == null || isSending()) {
            return -1;
        }
        Throwable error = publication.error;
        double given = publication.given;
        publication = null;
        if (error == null) {
            return -1;
        }
        problem = error instanceof Error ? error.toString() : error.getMessage();
        return given;
    }

    /**
     * Sends weights; does not wait for the brokers.
     *
     * @param share the mass that is sent with the weights
     * @param given the mass that this site gives away
     */
    void publish(long number, double share, double given, Map<String, Parameter> tensors) {
        List<ProducerRecord<byte[], byte[]>> parts = SiteUpdate.parts(topic, site, number, share, tensors);
        parts.forEach(part -> StreamHeaders.put(part.headers(), RUN, run));
        Publication fresh = new Publication(given, parts.size());
        publication = fresh;
        sent = sender.submit(() -> send(parts, fresh));
    }

    private void send(List<ProducerRecord<byte[], byte[]>> parts, Publication fresh) {
        int submitted = 0;
        try {
            // The other parts are useless if one is missing.
            while (submitted < parts.size() && fresh.error == null) {
                producer.send(parts.get(submitted), (place, error) -> fresh.onAcknowledged(error));
                submitted++;
            }
        } catch (RuntimeException | Error e) {
            // Whatever it is: a publication that stays in flight would be the last one.
            fresh.error = e;
        }
        for (int i = submitted; i < parts.size(); i++) {
            fresh.onAcknowledged(null);
        }
    }

    /** Waits until all publications have arrived or failed, for up to about twice the deadline. */
    void flush() {
        try {
            sent.get(cluster.deadline().toMillis() * 2, TimeUnit.MILLISECONDS);
            producer.flush();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            problem = e.toString();
        }
    }

    /** Logs the last problem since the previous call, if there was one. */
    void warn() {
        if (problem != null) {
            LOG.log(Level.WARNING, "{0} at {1} could not exchange weights, training continues: {2}", name(),
                    cluster, problem);
            problem = null;
        }
    }

    /** Closes the clients; earlier publications arrive or fail within the deadline. */
    @Override
    public void close() {
        received.values().forEach(SiteUpdate::close);
        received.clear();
        sender.shutdown();
        try {
            if (!sender.awaitTermination(cluster.deadline().toMillis(), TimeUnit.MILLISECONDS)) {
                sender.shutdownNow();
            }
        } catch (InterruptedException e) {
            sender.shutdownNow();
            Thread.currentThread().interrupt();
        }
        Work.uninterrupted(() -> {
            try {
                producer.close(cluster.deadline());
            } finally {
                KafkaCluster.close(consumer);
            }
        });
    }
}
