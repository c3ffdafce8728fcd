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
 * A site's consumer and producer on the topic of weights. What arrives is not trusted: sizes, checksums, names, shapes
 * and elements are checked before anything is kept. Confined to the training thread, but for the sending.
 */
final class SiteLink implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    /** The name of a header that tells the processes of one name apart. */
    private static final String RUN = "starling.run";
    private static final int MAX_SITES = 1000;
    static final int MAX_NAME = 200;
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
    /** Sends, because the producer waits where it has forgotten the topic while the brokers are away. */
    private final ExecutorService sender;
    private final Map<String, SiteNews.Assembly> assemblies = new HashMap<>();
    /** By site, what is to be mixed in: the latest weights with the mass of all that came since. */
    private final Map<String, SiteNews> heard = new HashMap<>();
    /** By site, when its weights were made, in ms since 1970, but no later than they came. */
    private final Map<String, Long> lastHeard = new HashMap<>();
    /** {@code null} if none is under way. */
    private Publication publication;
    private Future<?> sent = CompletableFuture.completedFuture(null);
    private String trouble;
    private long refused;
    private long refusedNs;

    /** Weights on their way to the brokers. */
    private static final class Publication {
        private final double given;
        private final AtomicInteger left;
        private volatile Exception error;

        Publication(double given, int parts) {
            this.given = given;
            left = new AtomicInteger(parts);
        }

        void arrived(Exception e) {
            error = e == null ? error : e;
            left.decrementAndGet();
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
                    // All parts at once.
                    "buffer.memory", Math.max(MIN_BUFFER, weights.mostBytes() * 2)));
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

    /** Names the site in messages. */
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
                throw cluster.away(name(), null);
            }
            hear(Duration.ofMillis(50));
        }
    }

    // ---- what others publish ----

    /** Takes what has arrived, without waiting longer than {@code wait}. */
    void hear(Duration wait) {
        try {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(wait)) {
                String from = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
                if (!from.equals(site)) {
                    take(from, record);
                } else if (!run.equals(StreamHeaders.text(record.headers(), RUN)) && record.timestamp() > openedMs) {
                    trouble = "another process publishes as site " + site + "; give each site a name of its own";
                }
            }
        } catch (KafkaException e) {
            trouble = e.getMessage();
        }
    }

    private void take(String from, ConsumerRecord<byte[], byte[]> record) {
        try {
            if (from.isEmpty() || from.length() > MAX_NAME) {
                throw new StreamException("the name of a site must have 1 to " + MAX_NAME + " characters, has "
                        + from.length());
            }
            if (!assemblies.containsKey(from) && assemblies.size() >= MAX_SITES) {
                throw new StreamException("more than " + MAX_SITES + " sites publish; restrict write access to the "
                        + "topic");
            }
            SiteNews news = assemblies.computeIfAbsent(from, key -> new SiteNews.Assembly(key, weights.mostBytes()))
                    .take(record);
            if (news == null) {
                return;
            }
            weights.check(news.weights());
            // A clock that is ahead must not make a site that has gone seem present.
            long made = Math.min(news.timestamp(), System.currentTimeMillis());
            lastHeard.put(from, made);
            SiteNews before = heard.remove(from);
            double sum = news.mass();
            if (before != null) {
                sum += before.mass();
                before.close();
            }
            heard.put(from, new SiteNews(from, sum, made, news.weights()));
        } catch (StarlingException e) {
            refuse(from, record, e.getMessage());
        }
    }

    /** Counts what is refused; logs it at most once a second. */
    private void refuse(String from, ConsumerRecord<byte[], byte[]> record, String reason) {
        refused++;
        if (refused == 1 || System.nanoTime() - refusedNs > 1_000_000_000L) {
            refusedNs = System.nanoTime();
            LOG.log(Level.WARNING, "topic {0}, partition {1}, offset {2}: a publication of site {3} is refused, the "
                    + "{4}th so far: {5}", record.topic(), record.partition(), record.offset(),
                    from.substring(0, Math.min(from.length(), MAX_NAME)).replaceAll("\\p{Cntrl}", "?"), refused,
                    reason);
        }
    }

    boolean isFresh(long timestamp) {
        return System.currentTimeMillis() - timestamp <= staleness.toMillis();
    }

    /** Returns what has come since the last call, by site, and forgets sites that have published nothing lately. */
    List<SiteNews> takeHeard() {
        List<SiteNews> all = new ArrayList<>(heard.values());
        heard.clear();
        lastHeard.values().removeIf(made -> !isFresh(made));
        long now = System.nanoTime();
        assemblies.values().removeIf(a -> now - a.takenNs() > staleness.toNanos());
        return all;
    }

    /** Returns how many other sites have published within the staleness. */
    long others() {
        return lastHeard.values().stream().filter(this::isFresh).count();
    }

    /** Returns how many records or publications were refused. */
    long refused() {
        return refused;
    }

    // ---- what this site publishes ----

    /** Tells whether a publication is still under way. */
    boolean isSending() {
        return publication != null && publication.left.get() > 0;
    }

    /**
     * Returns the mass that a publication gave away which did not reach the brokers, once; 0 otherwise. A publication
     * whose last acknowledgement alone was lost is counted as failed, too: that mass is then there twice, which
     * changes how much sites count, not what they converge to.
     */
    double returned() {
        if (publication == null || isSending()) {
            return 0;
        }
        Exception error = publication.error;
        double given = publication.given;
        publication = null;
        if (error == null) {
            return 0;
        }
        trouble = error.getMessage();
        return given;
    }

    /**
     * Sends weights; does not wait for the brokers.
     *
     * @param share the mass that goes with them
     * @param given the mass that they take from this site
     */
    void publish(long number, double share, double given, Map<String, Parameter> tensors) {
        List<ProducerRecord<byte[], byte[]>> parts = SiteNews.parts(topic, site, number, share, tensors);
        parts.forEach(part -> StreamHeaders.put(part.headers(), RUN, run));
        Publication fresh = new Publication(given, parts.size());
        publication = fresh;
        sent = sender.submit(() -> send(parts, fresh));
    }

    private void send(List<ProducerRecord<byte[], byte[]>> parts, Publication fresh) {
        int taken = 0;
        try {
            // Without one part, the others are of no use.
            while (taken < parts.size() && fresh.error == null) {
                producer.send(parts.get(taken), (place, error) -> fresh.arrived(error));
                taken++;
            }
        } catch (KafkaException | IllegalStateException e) {
            fresh.error = e;
        }
        for (int i = taken; i < parts.size(); i++) {
            fresh.arrived(null);
        }
    }

    /** Waits until what was published has arrived or failed, at most about twice as long as the deadline. */
    void flush() {
        try {
            sent.get(cluster.deadline().toMillis() * 2, TimeUnit.MILLISECONDS);
            producer.flush();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            trouble = e.toString();
        }
    }

    /** Logs what went wrong since the last call, if anything did. */
    void warn() {
        if (trouble != null) {
            LOG.log(Level.WARNING, "{0} at {1} had trouble with exchanging weights, training continues: {2}", name(),
                    cluster, trouble);
            trouble = null;
        }
    }

    /** Closes the clients; what was published before arrives, or fails within the deadline. */
    @Override
    public void close() {
        heard.values().forEach(SiteNews::close);
        heard.clear();
        sender.shutdown();
        try {
            if (!sender.awaitTermination(cluster.deadline().toMillis(), TimeUnit.MILLISECONDS)) {
                sender.shutdownNow();
            }
        } catch (InterruptedException e) {
            sender.shutdownNow();
            Thread.currentThread().interrupt();
        }
        try {
            producer.close(cluster.deadline());
        } finally {
            KafkaCluster.close(consumer);
        }
    }
}
