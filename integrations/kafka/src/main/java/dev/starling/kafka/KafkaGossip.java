package dev.starling.kafka;

import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Gossip between sites that share only a broker. Every few steps a site publishes its weights on a topic and mixes in
 * what others have published. Weights travel with a mass: a site divides its own evenly between itself and the sites
 * that it has heard of lately, and adds what it is sent, so that all sites' steps count alike (Kempe et al., 2003).
 * Weights older than the staleness are not mixed in. No site waits for another: while the brokers are away, or no
 * other site is heard, it trains on alone with a mass of 1.
 *
 * <pre>{@code
 * try (KafkaGossip gossip = KafkaGossip.of(cluster, "weights", "berlin").period(50)) {
 *     Trainer.of(model, loss, optimizer).data(loader).strategy(gossip).build().run();
 * }
 * }</pre>
 *
 * <p>A site may be several processes: {@link #around} takes their strategy; rank 0 talks to the broker. Confined to the
 * training thread.
 */
public final class KafkaGossip implements DistributionStrategy {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final double MIN_MASS = 1e-6;

    private final KafkaCluster cluster;
    private final String topic;
    private final String site;
    private DistributionStrategy inner = new SingleProcess();
    private int period = 20;
    private Duration staleness = Duration.ofMinutes(1);
    private String compression = "zstd";
    private boolean half;
    private final Map<String, SiteNews.Assembly> assemblies = new HashMap<>();
    /** By site, what is to be mixed in: the latest weights with the mass of all that came since. */
    private final Map<String, SiteNews> heard = new HashMap<>();
    /** By site, when its weights were made, in ms since 1970. */
    private final Map<String, Long> lastHeard = new HashMap<>();
    private final AtomicInteger sending = new AtomicInteger();
    private volatile String trouble;
    private SiteWeights weights;
    /** These two are {@code null} on ranks above 0, before the start and after the end. */
    private Consumer<byte[], byte[]> consumer;
    private Producer<byte[], byte[]> producer;
    private double mass = 1;
    private long steps;
    private long published;
    private long mixed;
    private long stale;

    private KafkaGossip(KafkaCluster cluster, String topic, String site) {
        this.cluster = cluster;
        this.topic = topic;
        this.site = site;
    }

    /**
     * Makes a strategy that publishes after every 20th step, compressed by zstd, and takes weights of the last minute.
     *
     * @param site a name that no other site has
     */
    public static KafkaGossip of(KafkaCluster cluster, String topic, String site) {
        return new KafkaGossip(cluster, topic, site);
    }

    /** Sets the number of steps between publications. */
    public KafkaGossip period(int each) {
        if (each < 1) {
            throw new StreamException("the period must be 1 step or more, got " + each);
        }
        period = each;
        return this;
    }

    /** Sets how old weights may be that are mixed in, by the sites' clocks. */
    public KafkaGossip staleness(Duration oldest) {
        staleness = oldest;
        return this;
    }

    /** Sends weights in bf16, half as many bytes; each mixing then rounds what is heard to 8 bits of mantissa. */
    public KafkaGossip half() {
        half = true;
        return this;
    }

    /** Sets how the producer compresses: none, lz4, snappy, gzip or zstd (default). */
    public KafkaGossip compression(String type) {
        compression = type;
        return this;
    }

    /** Sets the strategy of this site's own processes, which is closed with this one. */
    public KafkaGossip around(DistributionStrategy processes) {
        inner = processes;
        return this;
    }

    /** Returns how many times this site has published its weights. */
    public long published() {
        return published;
    }

    /** Returns how many times weights of another site were mixed in. */
    public long mixed() {
        return mixed;
    }

    /** Returns how many times weights of another site were left out because they were too old. */
    public long stale() {
        return stale;
    }

    @Override
    public void start(TrainingState state) {
        inner.start(state);
        weights = new SiteWeights(state);
        if (inner.rank() == 0) {
            connect();
            SiteNews first = heard.values().stream().max((a, b) -> Long.compare(a.timestamp(), b.timestamp()))
                    .orElse(null);
            if (first != null && state.source().isEmpty()) {
                LOG.log(Level.INFO, "site {0} begins with the weights of site {1}", site, first.site());
                weights.mix(first.weights(), 0);
            }
            forget();
        }
        spread();
    }

    /** Reads what was published within the staleness. */
    private void connect() {
        try {
            consumer = cluster.consumer(Map.of());
            producer = cluster.producer(Map.of("compression.type", compression, "linger.ms", 5));
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
                    throw cluster.away("the site " + site, null);
                }
                hear(Duration.ofMillis(50));
            }
        } catch (TimeoutException e) {
            throw cluster.away("the site " + site, e);
        }
    }

    @Override
    public void afterStep() {
        inner.afterStep();
        if (consumer != null) {
            hear(Duration.ZERO);
        }
        if (++steps % period == 0) {
            exchange();
        }
    }

    private void exchange() {
        if (consumer != null) {
            mixIn();
            publish();
            String problem = trouble;
            if (problem != null) {
                trouble = null;
                LOG.log(Level.WARNING, "site {0} cannot publish its weights and trains on alone: {1}", site, problem);
            }
        }
        spread();
    }

    private void spread() {
        if (inner.world() > 1 && inner.isSynchronous()) {
            weights.spread(inner);
        }
    }

    /** Takes what has arrived, without waiting longer than {@code wait}. */
    private void hear(Duration wait) {
        try {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(wait)) {
                String from = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
                if (!from.equals(site)) {
                    take(printable(from), record);
                }
            }
        } catch (KafkaException e) {
            trouble = e.getMessage();
        }
    }

    private static String printable(String name) {
        return name.replaceAll("\\p{Cntrl}", "?");
    }

    private void take(String from, ConsumerRecord<byte[], byte[]> record) {
        try {
            SiteNews news = assemblies.computeIfAbsent(from, SiteNews.Assembly::new).take(record);
            if (news == null) {
                return;
            }
            weights.check(news.weights());
            lastHeard.put(from, news.timestamp());
            SiteNews before = heard.remove(from);
            double sum = news.mass() + (before == null ? 0 : before.mass());
            heard.put(from, new SiteNews(from, sum, news.timestamp(), news.weights()));
        } catch (StreamException e) {
            LOG.log(Level.WARNING, "topic {0}, partition {1}, offset {2}: site {3} is passed over: {4}",
                    record.topic(), record.partition(), record.offset(), from, e.getMessage());
        }
    }

    private boolean isFresh(long timestamp) {
        return System.currentTimeMillis() - timestamp <= staleness.toMillis();
    }

    private void mixIn() {
        for (SiteNews news : heard.values()) {
            if (isFresh(news.timestamp())) {
                weights.mix(news.weights(), mass / (mass + news.mass()));
                mass += news.mass();
                mixed++;
            } else {
                stale++;
            }
        }
        forget();
    }

    private void forget() {
        heard.values().forEach(SiteNews::close);
        heard.clear();
    }

    /** Publishes the weights, unless the last ones are still on their way. */
    private void publish() {
        long others = lastHeard.values().stream().filter(this::isFresh).count();
        if (others == 0) {
            mass = 1;
        }
        double share = mass / (1 + others);
        if (sending.get() > 0 || share < MIN_MASS) {
            return;
        }
        Map<String, Parameter> sent = half ? weights.halves() : weights.whole();
        try {
            List<ProducerRecord<byte[], byte[]>> parts = SiteNews.parts(topic, site, steps, share, sent);
            sending.set(parts.size());
            for (ProducerRecord<byte[], byte[]> part : parts) {
                producer.send(part, (place, error) -> {
                    sending.decrementAndGet();
                    trouble = error == null ? trouble : error.getMessage();
                });
            }
            mass = share;
            published++;
        } catch (KafkaException e) {
            trouble = e.getMessage();
            sending.set(0);
        } finally {
            if (half) {
                sent.values().forEach(Parameter::close);
            }
        }
    }

    @Override
    public void conclude() {
        inner.conclude();
        if (consumer != null) {
            // The last weights are worth the wait for those before them, which the deadline bounds.
            producer.flush();
            hear(Duration.ofMillis(50));
        }
        exchange();
    }

    @Override
    public void finish() {
        inner.finish();
        stop();
    }

    @Override
    public void close() {
        stop();
        inner.close();
    }

    private void stop() {
        forget();
        if (producer != null) {
            producer.close(cluster.deadline());
            producer = null;
        }
        if (consumer != null) {
            KafkaCluster.close(consumer);
            consumer = null;
        }
    }

    // ---- what the site's own processes do ----

    @Override
    public int rank() {
        return inner.rank();
    }

    @Override
    public int world() {
        return inner.world();
    }

    @Override
    public Share share() {
        return inner.share();
    }

    @Override
    public void beforeForward(Tensor input) {
        inner.beforeForward(input);
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        inner.gradient(index, gradient);
    }

    @Override
    public boolean sendsGradients() {
        return inner.sendsGradients();
    }

    @Override
    public boolean stepsElsewhere() {
        return inner.stepsElsewhere();
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        return inner.beforeStep(gradients);
    }

    @Override
    public boolean stops(boolean wanted) {
        return inner.stops(wanted);
    }

    @Override
    public void settle() {
        inner.settle();
    }

    @Override
    public Parts saveParts(Path directory) {
        return inner.saveParts(directory);
    }

    @Override
    public void sum(double[] values) {
        inner.sum(values);
    }

    @Override
    public boolean isSynchronous() {
        return inner.isSynchronous();
    }
}
