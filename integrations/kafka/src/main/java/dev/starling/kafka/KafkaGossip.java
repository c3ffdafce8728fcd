package dev.starling.kafka;

import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.StepsElsewhere;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;
import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Gossip between sites that share only a broker. Every few steps a site mixes in the weights that other sites have
 * published on a topic, and publishes its own. Weights are sent with a mass: a site divides its mass evenly between
 * itself and the sites that have published within the staleness, and adds the mass of the weights that it mixes in, so
 * that the steps of all sites have equal influence (Kempe et al., 2003). Weights older than the staleness are not mixed
 * in. No site waits for another, nor for the brokers: while the brokers do not answer, or no other site publishes, a
 * site continues to train by itself, with a mass of 1. Only a process that takes the place of a lost rank 0 waits for
 * the brokers, to connect; if they do not answer within the deadline, it trains for ten times as long before it tries
 * again.
 *
 * <pre>{@code
 * try (KafkaGossip gossip = KafkaGossip.of(cluster, "weights", "berlin").period(50).build()) {
 *     Trainer.of(model, loss, optimizer).data(loader).strategy(gossip).build().run();
 * }
 * }</pre>
 *
 * <p>A site may be several processes that train by ring or gossip: their strategy is passed to {@link Builder#around},
 * and rank 0 communicates with the brokers. Confined to the training thread.
 */
public final class KafkaGossip implements DistributionStrategy, StreamsGradients, Collective, StepsElsewhere,
        Concludes {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");
    private static final double MIN_MASS = 1e-6;
    /** Kafka looks up no time before 1970. */
    private static final Duration MAX_STALENESS = Duration.ofDays(3650);
    /** How many times as long as a failed attempt to connect a site trains before the next one. */
    private static final long PAUSE = 10;

    private final KafkaCluster cluster;
    private final String topic;
    private final String site;
    private final DistributionStrategy inner;
    private final int period;
    private final Duration staleness;
    private final String compression;
    private final boolean half;
    /** {@code null} before the start and after {@link #close}. */
    private TrainingState state;
    private SiteWeights weights;
    /** {@code null} on ranks above 0, before the start and after the end. */
    private SiteLink link;
    /** When rank 0 may try to connect, by {@link System#nanoTime}. */
    private long connectNs = System.nanoTime();
    private double mass = 1;
    private long published;
    private long mixed;
    private long stale;
    private long refused;

    private KafkaGossip(Builder builder) {
        cluster = builder.cluster;
        topic = builder.topic;
        site = builder.site;
        inner = builder.inner;
        period = builder.period;
        staleness = builder.staleness;
        compression = builder.compression;
        half = builder.half;
    }

    /**
     * Returns a builder of a strategy that exchanges weights after every 20th step, compressed by zstd.
     *
     * @param site a name that no other site has
     */
    public static Builder of(KafkaCluster cluster, String topic, String site) {
        return new Builder(cluster, topic, site);
    }

    /** Returns how many times this site has published its weights. */
    public long published() {
        return published;
    }

    /** Returns how many publications of other sites were mixed in. */
    public long mixed() {
        return mixed;
    }

    /** Returns how many publications of other sites were not mixed in because they were too old. */
    public long stale() {
        return stale;
    }

    /** Returns how many other sites have published within the staleness; known to rank 0 only, 0 on other ranks. */
    public long others() {
        return link == null ? 0 : link.others();
    }

    /** Returns how many records and publications of other sites were refused because they were malformed. */
    public long refused() {
        return refused + (link == null ? 0 : link.refused());
    }

    /**
     * {@inheritDoc}
     *
     * @throws StreamException if the brokers do not answer within the deadline, there is no such topic, or this site's
     *     processes train under a strategy that keeps weights elsewhere, as a parameter server does
     */
    @Override
    public void start(TrainingState newState) {
        if (stepsElsewhere()) {
            throw new StreamException("the site " + site + " cannot train under "
                    + inner.getClass().getSimpleName() + ", which keeps the weights elsewhere and would overwrite "
                    + "those of other sites; use ring or gossip within the site");
        }
        // What an earlier run has left does not count in this one.
        disconnect();
        state = newState;
        weights = new SiteWeights(state);
        if (inner.rank() == 0) {
            link = connect();
            List<SiteUpdate> received = link.drainReceived();
            SiteUpdate latest = received.stream().max((a, b) -> Long.compare(a.timestamp(), b.timestamp()))
                    .orElse(null);
            if (latest != null && state.source().isEmpty()) {
                LOG.log(Level.INFO, "site {0} starts with the weights of site {1}", site, latest.site());
                weights.mix(latest.weights(), 0);
            }
            received.forEach(SiteUpdate::close);
        }
        // Gives the other processes of this site the weights of rank 0.
        inner.start(state);
    }

    private SiteLink connect() {
        mass = 1;
        return new SiteLink(cluster, topic, site, staleness, compression, weights);
    }

    private void requireStarted(String method) {
        if (state == null) {
            throw new IllegalStateException(method + " needs a strategy that has been started and is not closed; call"
                    + " start first, as a Trainer does");
        }
    }

    @Override
    public void afterStep() {
        requireStarted("afterStep");
        inner.afterStep();
        if (link != null) {
            link.receive(Duration.ZERO);
        }
        // The optimiser's count, not this process's: ranks that joined later exchange after the same steps.
        if (state.optimizer().steps() % period == 0) {
            exchange();
        }
    }

    private void exchange() {
        followRank();
        if (link != null) {
            double returned = link.returned();
            if (returned >= 0) {
                mass += returned;
                published--;
            }
            mixIn();
            publish();
            link.warn();
        }
        if (inner.world() > 1 && inner.share().isSynchronous()) {
            weights.spread(inner);
        }
    }

    /** Connects on rank 0 and disconnects on others: under an elastic strategy, ranks change when one is lost. */
    private void followRank() {
        if (inner.rank() != 0 && link != null) {
            disconnect();
        } else if (inner.rank() == 0 && link == null && System.nanoTime() - connectNs >= 0) {
            long begin = System.nanoTime();
            try {
                link = connect();
            } catch (StreamException e) {
                long end = System.nanoTime();
                connectNs = end + PAUSE * (end - begin);
                LOG.log(Level.WARNING, "site {0} continues without other sites: {1}", site, e.getMessage());
            }
        }
    }

    private void mixIn() {
        for (SiteUpdate update : link.drainReceived()) {
            if (link.isFresh(update.timestamp())) {
                weights.mix(update.weights(), mass / (mass + update.mass()));
                mass += update.mass();
                mixed++;
            } else {
                stale++;
            }
            update.close();
        }
    }

    /** Publishes the weights, unless the previous publication is still in flight. */
    private void publish() {
        long others = link.others();
        if (others == 0 && !link.isSending()) {
            mass = 1;
        }
        double share = mass / (1 + others);
        if (link.isSending() || share < MIN_MASS) {
            return;
        }
        Map<String, Parameter> sent = half ? weights.halves() : weights.whole();
        try {
            link.publish(state.optimizer().steps(), share, mass - share, sent);
            mass = share;
            published++;
        } finally {
            if (half) {
                sent.values().forEach(Parameter::close);
            }
        }
    }

    @Override
    public void conclude() {
        requireStarted("conclude");
        Concludes.of(inner).conclude();
        if (link != null) {
            // The final weights are published only after the previous ones have arrived; the deadline bounds this wait.
            link.flush();
            link.receive(Duration.ofMillis(50));
        }
        exchange();
    }

    @Override
    public void finish() {
        Concludes.of(inner).finish();
        disconnect();
    }

    @Override
    public void close() {
        state = null;
        try {
            disconnect();
        } finally {
            inner.close();
        }
    }

    private void disconnect() {
        if (link != null) {
            refused += link.refused();
            link.close();
            link = null;
        }
    }

    // ---- the strategy of the site's own processes ----

    @Override
    public int rank() {
        return inner.rank();
    }

    @Override
    public boolean savesCheckpoints() {
        return inner.savesCheckpoints();
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
        StreamsGradients.of(inner).beforeForward(input);
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        StreamsGradients.of(inner).gradient(index, gradient);
    }

    @Override
    public void onFailedStep() {
        StreamsGradients.of(inner).onFailedStep();
    }

    @Override
    public boolean sendsGradients() {
        return StreamsGradients.of(inner).sendsGradients();
    }

    @Override
    public boolean stepsElsewhere() {
        return StepsElsewhere.of(inner).stepsElsewhere();
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        return inner.beforeStep(gradients);
    }

    @Override
    public boolean stops(boolean wanted) {
        return Collective.of(inner).stops(wanted);
    }

    @Override
    public void settle() {
        inner.settle();
    }

    @Override
    public Parts saveParts(Path directory) {
        return StepsElsewhere.of(inner).saveParts(directory);
    }

    @Override
    public void sum(double[] values) {
        Collective.of(inner).sum(values);
    }

    /** Configures a strategy. Changes after {@link #build} have no effect on strategies that were built before. */
    public static final class Builder {
        private final KafkaCluster cluster;
        private final String topic;
        private final String site;
        private DistributionStrategy inner = new SingleProcess();
        private int period = 20;
        private Duration staleness = Duration.ofMinutes(1);
        private String compression = "zstd";
        private boolean half;

        private Builder(KafkaCluster cluster, String topic, String site) {
            if (site.isEmpty() || site.length() > SiteLink.MAX_NAME) {
                throw new StreamException("the name of a site must have 1 to " + SiteLink.MAX_NAME
                        + " characters, has " + site.length());
            }
            this.cluster = cluster;
            this.topic = topic;
            this.site = site;
        }

        /** Sets the number of steps between publications. */
        public Builder period(int steps) {
            if (steps < 1) {
                throw new StreamException("the period must be 1 step or more, got " + steps);
            }
            period = steps;
            return this;
        }

        /**
         * Sets the greatest age of weights that are mixed in, 1 ms to 3,650 days by the sites' clocks; 1 minute by
         * default.
         */
        public Builder staleness(Duration oldest) {
            if (oldest.compareTo(Duration.ofMillis(1)) < 0 || oldest.compareTo(MAX_STALENESS) > 0) {
                throw new StreamException("the staleness must be 1 ms to " + MAX_STALENESS.toDays() + " days, got "
                        + oldest);
            }
            staleness = oldest;
            return this;
        }

        /** Publishes weights in bf16: half as many bytes, rounded to 8 bits of mantissa. */
        public Builder half() {
            half = true;
            return this;
        }

        /** Sets the compression of published weights: none, lz4, snappy, gzip or zstd (default). */
        public Builder compression(String type) {
            compression = type;
            return this;
        }

        /**
         * Sets the strategy of this site's own processes, which is closed with this one. Every process has a
         * KafkaGossip with the same period.
         *
         * @param processes a synchronous strategy such as {@code RingAllReduce}, or one that mixes weights such as
         *     {@code Gossip}; not a parameter server
         */
        public Builder around(DistributionStrategy processes) {
            inner = processes;
            return this;
        }

        /** Returns the strategy, which connects to the brokers when training starts. */
        public KafkaGossip build() {
            return new KafkaGossip(this);
        }
    }
}
